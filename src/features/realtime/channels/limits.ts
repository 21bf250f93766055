import { AppError, badRequest, unauthorized } from '../../../core/errors.ts'
import { type Identity, mayOnlyRead, writeRefusal } from '../../../core/identity.ts'

export const MAX_CHANNELS = 100
export const MAX_EVENTS = 32
export const MAX_LISTED = 1_000
export const STATE_CHANGES_PER_SECOND = 5
const MAX_NAME_BYTES = 128
const MAX_EVENT_BYTES = 64
const MAX_PAYLOAD_BYTES = 32 * 1024
const MAX_STATE_BYTES = 1024

/** NUL and lone surrogates are no text for PostgreSQL. */
const isText = (text: string): boolean =>
  !/\0|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/.test(text)

function requireName(text: string, what: string, max: number): void {
  if (text === '' || !isText(text)) throw badRequest(`invalid ${what}`, 'validation_failed')
  if (Buffer.byteLength(text) > max) throw badRequest(`${what} is too long: max ${max} bytes`, 'validation_failed')
}

export const requireChannelName = (text: string): void => requireName(text, 'channel', MAX_NAME_BYTES)
export const requireEventName = (text: string): void => requireName(text, 'event', MAX_EVENT_BYTES)

/** JSON text of a value, within the size that it may have. */
function jsonWithin(value: unknown, what: string, max: number): string {
  const text = JSON.stringify(value ?? null)
  if (Buffer.byteLength(text) > max) throw new AppError('payload_too_large', `${what} is too large: max ${max} bytes`)
  return text
}

export const payloadText = (payload: unknown): string => jsonWithin(payload, 'payload', MAX_PAYLOAD_BYTES)
export const stateText = (state: unknown): string => jsonWithin(state, 'state', MAX_STATE_BYTES)

/** Throws unless such a caller has channels at all; policies decide about each. */
export function requireChannels(who: Identity, to: 'hear' | 'send'): void {
  // Who joins is a member in the eyes of the others.
  if (mayOnlyRead(who)) throw writeRefusal(who)
  if (to === 'send' && who.kind === 'admin' && who.isLockable) throw writeRefusal(who)
  if (who.kind === 'user' || who.kind === 'admin') return
  if (who.kind !== 'key') throw unauthorized('authentication required')
  if (who.grant.tables.length > 0) throw new AppError('insufficient_scope', 'token is limited to tables')
  // Without a user there is no `from`, and null is the operator.
  if (who.userId === null) throw new AppError('insufficient_scope', 'channels need a user')
  if (to === 'send' && who.grant.scope === 'readonly')
    throw new AppError('insufficient_scope', 'api key scope does not permit write operations')
}

/** Whether a name fits one of the patterns, in which `*` stands for any text. */
export function matcherOf(patterns: readonly string[]): (name: string) => boolean {
  const all = patterns.map((pattern) => pattern.split('*'))
  return (name) => all.some((parts) => fits(name, parts))
}

/** Each part as early as possible, so that no pattern takes more than one look at the name. */
function fits(name: string, parts: readonly string[]): boolean {
  const [first = '', ...rest] = parts
  const last = rest.pop()
  if (last === undefined) return name === first
  if (!name.startsWith(first) || name.length < first.length + last.length || !name.endsWith(last)) return false
  let at = first.length
  for (const part of rest) {
    const found = name.indexOf(part, at)
    if (found === -1) return false
    at = found + part.length
  }
  return at <= name.length - last.length
}
