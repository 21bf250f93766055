import { badRequest } from '../../core/errors.ts'
import { callerKey, type Identity, userIdOf } from '../../core/identity.ts'
import type { Once } from '../../core/once.ts'
import type { Call, Route } from '../../http/route.ts'
import { networkOf } from '../../http/wire/client-address.ts'
import { digestOf, sealAnswer } from './sealed-answer.ts'

/** Bytes that are kept for one account, or for the visitors of one network. */
const ACCOUNT_BYTES = 32 * 1024 * 1024
const REFRESH_SECONDS = 60

/** A key that belongs to no account must not be guessed. */
const LEAST_LENGTH = { user: 1, visitor: 32, refresh: 20 }

/** `api.idempotency_retention` in seconds, `api.idempotency_size` in bytes. */
export type KeyLimits = { readonly retention: number; readonly size: number }

/** The write that the Idempotency-Key of a call stands for, and the secret that opens its answer. */
export type RequestKey = { readonly once: Once; readonly secret: string }

export function requestKeyOf(route: Route, call: Call, { retention, size }: KeyLimits): RequestKey {
  const key = call.headers['idempotency-key'] ?? ''
  const isRefresh = route.once === 'refresh token'
  const least = LEAST_LENGTH[isRefresh ? 'refresh' : call.who.kind === 'anonymous' ? 'visitor' : 'user']
  if (key.length < least || !/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw badRequest('invalid idempotency key', 'invalid_idempotency_key')
  }
  const owner = isRefresh ? refreshTokenOf(call) : callerOf(call.who)
  const id = digestOf(JSON.stringify([owner, route.method, call.target, key]))
  const secret = isRefresh ? `${key} ${owner}` : key
  const once: Once = {
    id,
    account: isRefresh ? undefined : accountOf(call),
    limits: { account: ACCOUNT_BYTES, all: size },
    seconds: isRefresh ? REFRESH_SECONDS : retention,
    // The refresh token is part of the id, and nothing else in the body counts.
    body: route.bodyKind === 'raw' ? undefined : digestOf(isRefresh ? '' : call.bodyText),
    rights: undefined,
    repeat: (work) => work(),
    seal: (answer) => sealAnswer(secret, id, once.rights ?? [], answer),
  }
  return { once, secret }
}

function refreshTokenOf({ body }: Call): string {
  const token =
    typeof body === 'object' && body !== null ? (body as { refreshToken?: unknown }).refreshToken : undefined
  return typeof token === 'string' ? token : ''
}

/** What a guard or a policy can read of the caller, and its key or grant; the next token of the same caller is the same. */
const callerOf = (who: Identity): unknown => [callerKey(who), who.kind === 'key' ? (who.grantId ?? who.keyId) : '']

function accountOf({ who, ip }: Call): string {
  const userId = userIdOf(who)
  if (userId !== null) return `user ${userId}`
  if (who.kind === 'key') return `client ${who.grant.appId ?? who.keyId}`
  return who.kind === 'anonymous' ? `network ${networkOf(ip)}` : 'admin'
}
