import { normalisePhone } from '../../../core/contact/phone.ts'
import { AppError, notFound } from '../../../core/errors.ts'
import { userOf } from '../../../core/identity.ts'
import * as t from '../../../core/json-type.ts'
import type { Db } from '../../../db/db.ts'
import { type Call, json, type Route, route } from '../../../http/route.ts'
import { message, signedIn } from '../answers.ts'
import { deviceOf } from '../sessions/device.ts'
import type { AuthSettings } from '../settings.ts'
import type { BackupCodes } from './codes/backup-codes.ts'
import type { SentCodes } from './codes/sent-codes.ts'
import type { Enroller } from './enrolment.ts'
import { listFactors } from './factors.ts'
import { type FactorMethod, METHODS, WEBAUTHN } from './methods.ts'
import type { Credentials } from './passkeys/credentials.ts'
import type { Passkeys } from './passkeys/passkeys.ts'
import { passkeyFactorRoutes } from './passkeys/routes.ts'
import type { Totp } from './totp/totp.ts'
import { pendingOf } from './verification.ts'

/** Apps show codes in groups. */
const digits = (code: string): string => code.replace(/\s/g, '')
const code = t.object({ code: t.string() })
const phone = t.object({ phone: t.string({ description: 'E.164; spaces, dots, hyphens and parentheses are ignored' }) })
const challenge = t.object({ challenge_id: t.string() })
const answered = t.merged(challenge, code)
const codes = t.object({ codes: t.array(t.string(), { description: 'shown once' }) })

const factors = t.object({
  factors: t.array(
    t.object({
      id: t.uuid(),
      method: t.oneOf(['totp', 'email', 'sms']),
      label: t.string(),
      phone: t.optional(t.string({ description: 'masked' })),
      email: t.optional(t.string({ description: 'masked' })),
    }),
  ),
  webauthn: t.integer({ description: 'number of passkeys' }),
  backup_codes: t.integer({ description: 'how many are left' }),
})

export function mfaRoutes(deps: {
  db: Db
  settings: () => AuthSettings
  totp: Totp
  email: SentCodes
  sms: SentCodes
  backupCodes: BackupCodes
  passkeys: Passkeys
  credentials: Credentials
}): Route[] {
  const { db, totp, email, sms, backupCodes } = deps

  /** A switch that is off stops enrolment alone: whoever has a factor keeps it, and keeps needing it. */
  const requireSwitch = (method: FactorMethod | 'webauthn'): void => {
    const { name, setting } = method === 'webauthn' ? WEBAUTHN : METHODS[method]
    if (!deps.settings()[setting]) throw notFound(`${name} MFA is not enabled`, 'feature_disabled')
  }

  const enroller = ({ who }: Pick<Call, 'who'>): Enroller => {
    const user = userOf(who)
    if (user.isAnonymous) throw new AppError('account_is_anonymous', 'link your account before enabling MFA')
    return user
  }

  return [
    route('POST /api/auth/mfa/totp/enroll', {
      summary: 'Begin to enrol an authenticator app',
      auth: 'user',
      requires: () => requireSwitch('totp'),
      bodyKind: 'none',
      answers: {
        200: t.object({
          factor_id: t.uuid(),
          uri: t.string(),
          secret: t.string({ description: 'base32, shown once' }),
        }),
      },
      handle: async (call) => json(200, await totp.enroll(enroller(call))),
    }),
    route('POST /api/auth/mfa/totp/enroll/confirm', {
      summary: 'Finish the enrolment with a code',
      auth: 'user',
      requires: () => requireSwitch('totp'),
      limit: 'mfa_verify',
      body: code,
      answers: { 200: message },
      handle: async (call) => {
        await totp.confirm(enroller(call), digits(call.body.code))
        return json(200, { message: 'TOTP MFA enrolled' })
      },
    }),
    route('POST /api/auth/mfa/totp/challenge', {
      summary: 'Ask for a code of the authenticator app',
      auth: 'mfa',
      bodyKind: 'none',
      answers: { 200: challenge },
      handle: async ({ who }) => json(200, { challenge_id: await totp.challenge(pendingOf(who).id) }),
    }),
    route('POST /api/auth/mfa/totp/verify', {
      summary: 'Answer a challenge; the session becomes aal2',
      auth: 'mfa',
      limit: 'mfa_verify',
      body: answered,
      answers: { 200: signedIn },
      handle: async (call) => {
        const { challenge_id, code } = call.body
        return json(200, await totp.verify(pendingOf(call.who), challenge_id, digits(code), deviceOf(call)))
      },
    }),

    route('POST /api/auth/mfa/email/enroll', {
      summary: 'Mail a code to enrol the address as second factor',
      auth: 'user',
      requires: () => requireSwitch('email'),
      bodyKind: 'none',
      answers: { 200: message },
      handle: async (call) => {
        await email.enroll(enroller(call))
        return json(200, { message: 'a verification code has been sent to your email' })
      },
    }),
    route('POST /api/auth/mfa/email/enroll/confirm', {
      summary: 'Finish the enrolment with a code',
      auth: 'user',
      requires: () => requireSwitch('email'),
      limit: 'mfa_verify',
      body: code,
      answers: { 200: message },
      handle: async (call) => {
        await email.confirm(enroller(call), digits(call.body.code))
        return json(200, { message: 'email MFA enrolled' })
      },
    }),
    route('POST /api/auth/mfa/email/challenge', {
      summary: 'Ask for a code by mail',
      auth: 'mfa',
      bodyKind: 'none',
      answers: { 200: challenge },
      handle: async ({ who }) => json(200, { challenge_id: await email.challenge(pendingOf(who).id) }),
    }),
    route('POST /api/auth/mfa/email/verify', {
      summary: 'Answer a challenge; the session becomes aal2',
      auth: 'mfa',
      limit: 'mfa_verify',
      body: answered,
      answers: { 200: signedIn },
      handle: async (call) => {
        const { challenge_id, code } = call.body
        return json(200, await email.verify(pendingOf(call.who), challenge_id, digits(code), deviceOf(call)))
      },
    }),

    route('POST /api/auth/mfa/sms/enroll', {
      summary: 'Send a code to enrol a phone as second factor',
      auth: 'user',
      limit: 'sms',
      requires: () => requireSwitch('sms'),
      body: phone,
      answers: { 200: message },
      handle: async (call) => {
        await sms.enroll(enroller(call), normalisePhone(call.body.phone))
        return json(200, { message: 'a verification code has been sent to your phone' })
      },
    }),
    route('POST /api/auth/mfa/sms/enroll/confirm', {
      summary: 'Finish the enrolment with a code',
      auth: 'user',
      requires: () => requireSwitch('sms'),
      limit: 'mfa_verify',
      body: code,
      answers: { 200: message },
      handle: async (call) => {
        await sms.confirm(enroller(call), digits(call.body.code))
        return json(200, { message: 'SMS MFA enrolled' })
      },
    }),
    route('POST /api/auth/mfa/sms/challenge', {
      summary: 'Ask for a code by SMS',
      auth: 'mfa',
      limit: 'sms',
      bodyKind: 'none',
      answers: { 200: t.merged(challenge, message) },
      handle: async ({ who }) => {
        const id = await sms.challenge(pendingOf(who).id)
        return json(200, { challenge_id: id, message: 'a verification code has been sent to your phone' })
      },
    }),
    route('POST /api/auth/mfa/sms/verify', {
      summary: 'Answer a challenge; the session becomes aal2',
      auth: 'mfa',
      limit: 'mfa_verify',
      body: answered,
      answers: { 200: signedIn },
      handle: async (call) => {
        const { challenge_id, code } = call.body
        return json(200, await sms.verify(pendingOf(call.who), challenge_id, digits(code), deviceOf(call)))
      },
    }),

    ...passkeyFactorRoutes({ ...deps, enroller, requireSwitch: () => requireSwitch('webauthn') }),

    route('POST /api/auth/mfa/backup/generate', {
      summary: 'Ten new backup codes; earlier ones end',
      auth: 'user',
      bodyKind: 'none',
      answers: { 200: codes },
      handle: async ({ who }) => json(200, { codes: await backupCodes.generate(userOf(who)) }),
    }),
    route('POST /api/auth/mfa/backup/regenerate', {
      summary: 'Ten new backup codes; earlier ones end',
      auth: 'user',
      bodyKind: 'none',
      answers: { 200: codes },
      handle: async ({ who }) => json(200, { codes: await backupCodes.generate(userOf(who)) }),
    }),
    route('POST /api/auth/mfa/backup/verify', {
      summary: 'Use a backup code as second factor',
      auth: 'mfa',
      limit: 'mfa_verify',
      body: code,
      answers: { 200: signedIn },
      handle: async (call) =>
        json(200, await backupCodes.verify(pendingOf(call.who), digits(call.body.code), deviceOf(call))),
    }),
    route('GET /api/auth/mfa/backup/count', {
      summary: 'How many backup codes are left',
      auth: 'user',
      answers: { 200: t.object({ remaining: t.integer() }) },
      handle: async ({ who }) => json(200, { remaining: await backupCodes.remaining(userOf(who).id) }),
    }),

    route('GET /api/auth/mfa/factors', {
      summary: 'What the user may choose from',
      auth: 'user-or-mfa',
      answers: { 200: factors },
      handle: async ({ who }) => json(200, await listFactors(db, (who.kind === 'mfa' ? who : userOf(who)).id)),
    }),
  ]
}
