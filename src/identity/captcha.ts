import { AppError, badRequest, unavailable } from '../core/errors.ts'
import type { Outgoing } from '../http/out/outgoing.ts'

export type CaptchaConfig = {
  captcha_provider: 'none' | 'turnstile' | 'hcaptcha' | 'recaptcha'
  captcha_secret: string
  /** Any service that speaks the same protocol; empty = that of the provider. */
  captcha_url: string
}

/** Throws 400 unless the token of the request proves a person. */
export type RequireCaptcha = (token: string | undefined, ip: string) => Promise<void>

const SERVICES = {
  turnstile: 'https://challenges.cloudflare.com/turnstile/v0/siteverify',
  hcaptcha: 'https://api.hcaptcha.com/siteverify',
  recaptcha: 'https://www.google.com/recaptcha/api/siteverify',
}
const CHECK_MS = 5_000
const MAX_TOKEN = 8_192
/** reCAPTCHA v3 answers how likely a person is, from 0 to 1. */
const LEAST_SCORE = 0.5

/** Undefined where no captcha is configured. */
export function createCaptcha(config: CaptchaConfig, outgoing: Outgoing): RequireCaptcha | undefined {
  const { captcha_provider: provider, captcha_secret: secret } = config
  if (provider === 'none') return undefined
  const url = config.captcha_url || SERVICES[provider]
  return async (token, ip) => {
    if (token === undefined || token === '') throw new AppError('captcha_required', 'captcha_token is required')
    if (token.length > MAX_TOKEN) throw failed()
    const answer = await outgoing
      .request({
        method: 'POST',
        url,
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({ secret, response: token, remoteip: ip }).toString(),
        timeoutMs: CHECK_MS,
        maxBytes: 65_536,
      })
      .catch(() => undefined)
    const { success, score = 1 } = verdictOf(answer?.body ?? '')
    if (success === undefined) throw unavailable('the captcha cannot be checked')
    if (!success || score < LEAST_SCORE) throw failed()
  }
}

const failed = () => badRequest('the captcha was not solved', 'captcha_failed')

function verdictOf(body: string): { success?: boolean; score?: number } {
  try {
    const { success, score } = Object(JSON.parse(body)) as Record<string, unknown>
    return {
      ...(typeof success === 'boolean' && { success }),
      ...(typeof score === 'number' && { score }),
    }
  } catch {
    return {}
  }
}
