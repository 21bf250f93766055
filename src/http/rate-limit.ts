import { AppError, hasStatus, isMistake, unavailable } from '../core/errors.ts'
import { type Identity, impersonationOf, ownerOf } from '../core/identity.ts'
import { addressSubject } from './wire/client-address.ts'
import { type FlatHeaders, flatOf } from './wire/headers.ts'

/** At most `max` requests in `seconds`, counted from the first request of a subject. */
export type RateLimit = { readonly max: number; readonly seconds: number }

/** The count of a subject in its window after this request; times are the database's, shared by all nodes. */
export type WindowCount = { count: number; secondsLeft: number; resetAt: number }

/** Counts one request; see db/counters.ts. */
export type Counters = { add(key: string, seconds: number): Promise<WindowCount> }

export type Allowance = { allowed: boolean; limit: number; remaining: number; resetAt: number; retryAfter: number }

export type Limiter = {
  takeToken(name: string, subject: string, rate: RateLimit): Promise<Allowance>
}

/** Cached refusals; the oldest is dropped, and its subject is counted in the database again. */
const MAX_BLOCKED = 100_000

/** Counts in the database; a refused subject costs no further query until its window ends. */
export function createLimiter({ counters }: { counters: Counters }): Limiter {
  const blocked = new Map<string, { allowance: Allowance; until: number; max: number }>()

  const cachedRefusal = (key: string, max: number): Allowance | undefined => {
    const entry = blocked.get(key)
    if (entry === undefined) return undefined
    const left = entry.until - performance.now()
    // The limit may have been raised since.
    if (left > 0 && entry.max >= max) return { ...entry.allowance, retryAfter: Math.max(1, Math.ceil(left / 1000)) }
    blocked.delete(key)
    return undefined
  }

  return {
    async takeToken(name, subject, rate) {
      const key = `${name}:${subject}`
      const before = cachedRefusal(key, rate.max)
      if (before) return before
      const { count, secondsLeft, resetAt } = await countRequest(counters, key, rate.seconds)
      const allowance = {
        allowed: count <= rate.max,
        limit: rate.max,
        remaining: Math.max(0, rate.max - count),
        resetAt,
        retryAfter: Math.max(1, Math.ceil(secondsLeft)),
      }
      if (count >= rate.max && secondsLeft > 0) {
        const refusal = { ...allowance, allowed: false, remaining: 0 }
        blocked.set(key, { allowance: refusal, until: performance.now() + secondsLeft * 1000, max: rate.max })
        const oldest = blocked.size > MAX_BLOCKED ? blocked.keys().next().value : undefined
        if (oldest !== undefined) blocked.delete(oldest)
      }
      return allowance
    },
  }
}

/** Fails closed: 503 when the request cannot be counted. */
async function countRequest(counters: Counters, key: string, seconds: number): Promise<WindowCount> {
  try {
    return await counters.add(key, seconds)
  } catch (cause) {
    if (isMistake(cause) || hasStatus(cause, 503)) throw cause
    throw unavailable('rate limit unavailable', 1, 'unavailable', cause)
  }
}

type LimitPrefix = 'X-RateLimit' | 'X-App-RateLimit'

export const limitHeaders = (
  { limit, remaining, resetAt }: Allowance,
  prefix: LimitPrefix = 'X-RateLimit',
): Record<string, string> => ({
  [`${prefix}-Limit`]: String(limit),
  [`${prefix}-Remaining`]: String(remaining),
  [`${prefix}-Reset`]: String(resetAt),
})

export const pushLimitHeaders = (flat: FlatHeaders, allowance: Allowance, prefix: LimitPrefix): void =>
  void flat.push(...flatOf(limitHeaders(allowance, prefix)))

export const tooMany = (
  allowance: Allowance,
  message = 'too many requests',
  code: 'rate_limited' | 'app_rate_limited' = 'rate_limited',
): AppError => new AppError(code, message, { headers: { 'Retry-After': String(allowance.retryAfter) } })

/** The subject that a `rate_limit.*` key counts: user or key on data routes, else the address. */
export function limitFor(
  name: string,
  rates: Readonly<Record<string, RateLimit | null>>,
  who: Identity,
  ip: string,
): { name: string; subject: string; rate: RateLimit } | undefined {
  if (name === 'agents' && who.kind === 'key') return withRate(name, who.userId ?? who.keyId, rates[name])
  if (name !== 'api') return withRate(name, addressSubject(ip), rates[name])
  if (impersonationOf(who) !== undefined) return withRate('api', ownerOf(who) ?? '', rates['api'])
  switch (who.kind) {
    case 'anonymous':
      return withRate('api_anonymous', addressSubject(ip), rates['api_anonymous'])
    case 'user':
    case 'mfa':
      return withRate('api', who.id, rates['api'])
    case 'key':
      return withRate('api', who.keyId, rates['api'])
    case 'admin':
    case 'system':
      return undefined
  }
}

const withRate = (name: string, subject: string, rate: RateLimit | null | undefined) =>
  rate ? { name, subject, rate } : undefined
