import { AppError, notFound, unauthorized } from '../../../core/errors.ts'
import type { Identity } from '../../../core/identity.ts'
import { normalisePhone } from '../../../core/phone.ts'
import type { Db } from '../../../db/db.ts'
import { object, requiredString } from '../../../http/fields.ts'
import { type Call, json, type Route, route } from '../../../http/route.ts'
import { userOf } from '../accounts/routes.ts'
import { deviceOf } from '../sessions/device.ts'
import type { AuthSettings } from '../settings.ts'
import type { BackupCodes } from './codes/backup-codes.ts'
import type { SentCodes } from './codes/sent-codes.ts'
import type { Enroller } from './enrolment.ts'
import { listFactors } from './factors.ts'
import { type FactorMethod, METHODS } from './methods.ts'
import type { Totp } from './totp/totp.ts'
import type { Pending } from './verification.ts'

/** The guard let only these through; this says so to the compiler. */
function pendingOf(who: Identity): Pending {
  if (who.kind !== 'mfa') throw unauthorized('no MFA challenge pending')
  return who
}

/** Apps show codes in groups. */
const codeField = (body: unknown): string => requiredString(object(body), 'code').replace(/\s/g, '')
const answerFields = (body: unknown) => ({
  challengeId: requiredString(object(body), 'challenge_id'),
  code: codeField(body),
})

export function mfaRoutes(deps: {
  db: Db
  settings: () => AuthSettings
  totp: Totp
  email: SentCodes
  sms: SentCodes
  backupCodes: BackupCodes
}): Route[] {
  const { db, totp, email, sms, backupCodes } = deps

  /** A switch that is off stops enrolment alone: whoever has a factor keeps it, and keeps needing it. */
  const enroller = ({ who }: Pick<Call, 'who'>, method: FactorMethod): Enroller => {
    const { name, setting } = METHODS[method]
    if (!deps.settings()[setting]) throw notFound(`${name} MFA is not enabled`)
    const user = userOf(who)
    if (user.isAnonymous) throw new AppError('forbidden', 'link your account before enabling MFA')
    return user
  }

  return [
    route('POST /api/auth/mfa/totp/enroll', {
      auth: 'user',
      bodyKind: 'none',
      handle: async (call) => json(200, await totp.enroll(enroller(call, 'totp'))),
    }),
    route('POST /api/auth/mfa/totp/enroll/confirm', {
      auth: 'user',
      limit: 'mfa_verify',
      handle: async (call) => {
        await totp.confirm(enroller(call, 'totp'), codeField(call.body))
        return json(200, { message: 'TOTP MFA enrolled' })
      },
    }),
    route('POST /api/auth/mfa/totp/challenge', {
      auth: 'mfa',
      bodyKind: 'none',
      handle: async ({ who }) => json(200, { challenge_id: await totp.challenge(pendingOf(who).id) }),
    }),
    route('POST /api/auth/mfa/totp/verify', {
      auth: 'mfa',
      limit: 'mfa_verify',
      body: answerFields,
      handle: async (call) => {
        const { challengeId, code } = call.body
        return json(200, await totp.verify(pendingOf(call.who), challengeId, code, deviceOf(call)))
      },
    }),

    route('POST /api/auth/mfa/email/enroll', {
      auth: 'user',
      bodyKind: 'none',
      handle: async (call) => {
        await email.enroll(enroller(call, 'email'))
        return json(200, { message: 'a verification code has been sent to your email' })
      },
    }),
    route('POST /api/auth/mfa/email/enroll/confirm', {
      auth: 'user',
      limit: 'mfa_verify',
      handle: async (call) => {
        await email.confirm(enroller(call, 'email'), codeField(call.body))
        return json(200, { message: 'email MFA enrolled' })
      },
    }),
    route('POST /api/auth/mfa/email/challenge', {
      auth: 'mfa',
      bodyKind: 'none',
      handle: async ({ who }) => json(200, { challenge_id: await email.challenge(pendingOf(who).id) }),
    }),
    route('POST /api/auth/mfa/email/verify', {
      auth: 'mfa',
      limit: 'mfa_verify',
      body: answerFields,
      handle: async (call) => {
        const { challengeId, code } = call.body
        return json(200, await email.verify(pendingOf(call.who), challengeId, code, deviceOf(call)))
      },
    }),

    route('POST /api/auth/mfa/sms/enroll', {
      auth: 'user',
      limit: 'sms',
      handle: async (call) => {
        const user = enroller(call, 'sms')
        await sms.enroll(user, normalisePhone(requiredString(object(call.body), 'phone')))
        return json(200, { message: 'a verification code has been sent to your phone' })
      },
    }),
    route('POST /api/auth/mfa/sms/enroll/confirm', {
      auth: 'user',
      limit: 'mfa_verify',
      handle: async (call) => {
        await sms.confirm(enroller(call, 'sms'), codeField(call.body))
        return json(200, { message: 'SMS MFA enrolled' })
      },
    }),
    route('POST /api/auth/mfa/sms/challenge', {
      auth: 'mfa',
      limit: 'sms',
      bodyKind: 'none',
      handle: async ({ who }) => {
        const id = await sms.challenge(pendingOf(who).id)
        return json(200, { challenge_id: id, message: 'a verification code has been sent to your phone' })
      },
    }),
    route('POST /api/auth/mfa/sms/verify', {
      auth: 'mfa',
      limit: 'mfa_verify',
      body: answerFields,
      handle: async (call) => {
        const { challengeId, code } = call.body
        return json(200, await sms.verify(pendingOf(call.who), challengeId, code, deviceOf(call)))
      },
    }),

    route('POST /api/auth/mfa/backup/generate', {
      auth: 'user',
      bodyKind: 'none',
      handle: async ({ who }) => json(200, { codes: await backupCodes.generate(userOf(who)) }),
    }),
    route('POST /api/auth/mfa/backup/regenerate', {
      auth: 'user',
      bodyKind: 'none',
      handle: async ({ who }) => json(200, { codes: await backupCodes.generate(userOf(who)) }),
    }),
    route('POST /api/auth/mfa/backup/verify', {
      auth: 'mfa',
      limit: 'mfa_verify',
      body: codeField,
      handle: async (call) => json(200, await backupCodes.verify(pendingOf(call.who), call.body, deviceOf(call))),
    }),
    route('GET /api/auth/mfa/backup/count', {
      auth: 'user',
      handle: async ({ who }) => json(200, { remaining: await backupCodes.remaining(userOf(who).id) }),
    }),

    route('GET /api/auth/mfa/factors', {
      auth: 'user-or-mfa',
      handle: async ({ who }) => json(200, await listFactors(db, (who.kind === 'mfa' ? who : userOf(who)).id)),
    }),
  ]
}
