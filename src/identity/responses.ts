import * as t from '../core/json-type.ts'
import { user } from '../core/user.ts'

export const signedIn = t.object({ token: t.string(), refreshToken: t.string(), user })

/** A user with a second factor gets a token that is valid only for verifying it. */
const secondFactorPending = t.object({ mfa_pending: t.boolean(), mfa_token: t.string() })

export const signedInOrPending = t.union(signedIn, secondFactorPending)

export const message = t.object({ message: t.string() })

/** Beside what a request is about, where a captcha may be asked for. */
export const withCaptcha = t.object({
  captcha_token: t.optional(t.string({ description: 'of the captcha, where one is configured' })),
})
