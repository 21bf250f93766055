import { normalisePhone } from '../../core/contact/phone.ts'
import { pendingOf, userOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { SecretBox } from '../../core/secret-box.ts'
import { json, type Route, route } from '../../http/route.ts'
import type { IdentityDeps } from '../../identity/deps.ts'
import { message, signedIn } from '../../identity/responses.ts'
import { type EndsSessions, enrollerOf, type Verification } from '../../identity/second-factor.ts'
import { deviceOf, type StepUp } from '../../identity/session.ts'
import { requireSetting } from '../../identity/settings.ts'
import type { SmsCodeConfig } from '../../identity/sms-code.ts'
import { typedCode } from '../../identity/typed-code.ts'
import { createBackupCodeKey } from './backup-code-key.ts'
import { backupCodeRoutes, createBackupCodes } from './backup-codes.ts'
import { emailChannel } from './email-codes.ts'
import { createEnrolment } from './enrolment.ts'
import { listFactors } from './factors.ts'
import { type FactorMethod, MFA_METHODS } from './methods.ts'
import { createSentCodes } from './sent-codes.ts'
import { smsChannel } from './sms-codes.ts'
import { stepUpRoute } from './step-up.ts'
import { createTotp, type Totp } from './totp.ts'
import { createVerification } from './verification.ts'

type Needed = 'db' | 'settings' | 'appName' | 'startSession' | 'queueMail' | 'wakeMail' | 'queueSms' | 'wakeSms'

export type MfaDeps = Pick<IdentityDeps, Needed> &
  EndsSessions & {
    stepUp: StepUp
    config: SmsCodeConfig
    /** Key for the HMACs of short-lived codes. */
    codeKey: Buffer
    /** For secrets at rest. */
    box: SecretBox
  }

const code = t.object({ code: t.string() })
const phone = t.object({ phone: t.string({ description: 'E.164; spaces, dots, hyphens and parentheses are ignored' }) })
const challenge = t.object({ challenge_id: t.string() })

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

/** Second factors; other features add one through `verification`. */
export function createMfa(deps: MfaDeps): { routes: Route[]; verification: Verification } {
  const { db, box, settings } = deps
  const [enrolment, verification] = [createEnrolment(deps), createVerification(deps)]
  const steps = { ...deps, enrolment, verification }
  const totp = createTotp(steps)
  const email = createSentCodes(steps, emailChannel(deps))
  const sms = createSentCodes(steps, smsChannel(deps))
  const backupCodes = createBackupCodes({ db, verification, codeKey: createBackupCodeKey({ db, box }) })

  /** A switched-off method only stops enrolment: users who have the factor keep it and still need it. */
  const requireMethod = (method: FactorMethod) =>
    requireSetting(settings, MFA_METHODS[method].setting, `${MFA_METHODS[method].name} MFA`)

  /** The routes that all methods share: confirm the enrolment, request a code, verify it. */
  const codeRoutes = (
    method: FactorMethod,
    codes: Pick<Totp, 'confirm' | 'challenge' | 'verify'>,
    challenged: { summary: string; limit?: string; message?: string },
  ): Route[] => [
    route(`POST /api/auth/mfa/${method}/enroll/confirm`, {
      summary: 'Finish the enrolment with a code',
      auth: 'user',
      requires: requireMethod(method),
      limit: 'mfa_verify',
      body: code,
      answers: { 200: message },
      handle: async ({ who, body }) => {
        await codes.confirm(enrollerOf(who), typedCode(body.code))
        return json(200, { message: `${MFA_METHODS[method].name} MFA enrolled` })
      },
    }),
    route(`POST /api/auth/mfa/${method}/challenge`, {
      summary: challenged.summary,
      auth: 'mfa',
      ...(challenged.limit && { limit: challenged.limit }),
      bodyKind: 'none',
      answers: { 200: challenged.message ? t.merged(challenge, message) : challenge },
      handle: async ({ who }) => {
        const id = await codes.challenge(pendingOf(who).id)
        return json(200, { challenge_id: id, ...(challenged.message && { message: challenged.message }) })
      },
    }),
    route(`POST /api/auth/mfa/${method}/verify`, {
      summary: 'Answer a challenge; the session becomes aal2',
      auth: 'mfa',
      limit: 'mfa_verify',
      body: t.merged(challenge, code),
      answers: { 200: signedIn },
      handle: async (call) => {
        const { challenge_id, code } = call.body
        return json(200, await codes.verify(pendingOf(call.who), challenge_id, typedCode(code), deviceOf(call)))
      },
    }),
  ]

  const sentToPhone = 'a verification code has been sent to your phone'
  const routes = [
    route('POST /api/auth/mfa/totp/enroll', {
      summary: 'Begin to enrol an authenticator app',
      auth: 'user',
      requires: requireMethod('totp'),
      bodyKind: 'none',
      answers: {
        200: t.object({
          factor_id: t.uuid(),
          uri: t.string(),
          secret: t.string({ description: 'base32, shown once' }),
        }),
      },
      handle: async ({ who }) => json(200, await totp.enroll(enrollerOf(who))),
    }),
    ...codeRoutes('totp', totp, { summary: 'Ask for a code of the authenticator app' }),

    route('POST /api/auth/mfa/email/enroll', {
      summary: 'Mail a code to enrol the address as second factor',
      auth: 'user',
      requires: requireMethod('email'),
      bodyKind: 'none',
      answers: { 200: message },
      handle: async ({ who }) => {
        await email.enroll(enrollerOf(who))
        return json(200, { message: 'a verification code has been sent to your email' })
      },
    }),
    ...codeRoutes('email', email, { summary: 'Ask for a code by mail' }),

    route('POST /api/auth/mfa/sms/enroll', {
      summary: 'Send a code to enrol a phone as second factor',
      auth: 'user',
      limit: 'sms',
      requires: requireMethod('sms'),
      body: phone,
      answers: { 200: message },
      handle: async ({ who, body }) => {
        await sms.enroll(enrollerOf(who), normalisePhone(body.phone))
        return json(200, { message: sentToPhone })
      },
    }),
    ...codeRoutes('sms', sms, { summary: 'Ask for a code by SMS', limit: 'sms', message: sentToPhone }),

    ...backupCodeRoutes(backupCodes),
    stepUpRoute(deps),
    route('GET /api/auth/mfa/factors', {
      summary: 'What the user may choose from',
      auth: 'user-or-mfa',
      answers: { 200: factors },
      handle: async ({ who }) => json(200, await listFactors(db, (who.kind === 'mfa' ? who : userOf(who)).id)),
    }),
  ]
  return { routes, verification }
}
