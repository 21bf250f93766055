import { entryCache } from '../../../core/entry-cache.ts'
import * as t from '../../../core/json-type.ts'
import { around } from '../visibility/encoded-change.ts'
import type { FrameFormat } from './client.ts'

/** Those of RFC 6455 §7.4.1, and of our own 4000 + the status that HTTP would have. */
export const CLOSE = { binary: 1003, policy: 1008, restart: 1012, tooSlow: 1013 } as const

const TYPES = [
  ...(['auth', 'subscribe', 'unsubscribe', 'ping', 'join', 'send', 'presence', 'leave'] as const),
  ...(['live', 'unlive'] as const),
] as const

export type ClientMessage = {
  type: (typeof TYPES)[number]
  /** Echoed in the reply, so that the client knows which message it answers. */
  ref: string | number | null
  fields: object
}

/** Undefined for what is no message at all. */
export function parseMessage(text: string): ClientMessage | undefined {
  const fields = parsed(text)
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) return undefined
  const { type: named, ref = null } = fields as Record<string, unknown>
  const type = TYPES.find((known) => known === named)
  if (type === undefined || (ref !== null && typeof ref !== 'string' && typeof ref !== 'number')) return undefined
  return { type, ref, fields }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const tableNames = t.union(t.array(t.string()), t.string())

export const authFields = t.object({ token: t.string() })
const sub = t.optional(t.string({ minLength: 1, maxLength: 64 }))
export const unsubscribeFields = t.object({ sub, tables: t.optional(tableNames) })
export const subscribeFields = t.object({
  sub,
  tables: t.optional(tableNames),
  filter: t.optional(t.string()),
  last_id: t.optional(t.string()),
})

const given = t.union(t.string(), t.number(), t.boolean(), t.array(t.string()))
export const liveFields = t.object({
  collection: t.string(),
  query: t.optional(t.record(t.nullable(given))),
  position: t.optional(t.nullable(t.string())),
  keys: t.optional(t.boolean()),
})
export const unliveFields = t.object({ live: t.integer() })

const TEXT = 0x1
const PING = 0x9
const PONG = 0xa

/**
 * A whole frame as a server sends it (RFC 6455 §5.2): it is not masked, so the same bytes are good for every client, and
 * many frames for one write.
 */
function frame(opcode: number, content: Buffer): Buffer {
  const { length } = content
  const start = length < 126 ? 2 : length < 65_536 ? 4 : 10
  const bytes = Buffer.allocUnsafe(start + length)
  bytes[0] = 0x80 | opcode
  if (start === 2) bytes[1] = length
  else if (start === 4) {
    bytes[1] = 126
    bytes.writeUInt16BE(length, 2)
  } else {
    bytes[1] = 127
    bytes.writeBigUInt64BE(BigInt(length), 2)
  }
  content.copy(bytes, start)
  return bytes
}

export const messageFrame = (message: object): Buffer => frame(TEXT, Buffer.from(JSON.stringify(message)))
export const textFrame = (content: Buffer): Buffer => frame(TEXT, content)
export const PING_FRAME: Buffer = frame(PING, Buffer.alloc(0))
export const pongFrame = (content: Buffer): Buffer => frame(PONG, content)

/** `sub`: the name of the subscription, if the client gave it one. */
const formatFor = (sub?: string): FrameFormat => ({
  // The record is passed on as PostgreSQL wrote it, with all its digits.
  change: ({ position, action, table, record }) =>
    action === 'truncate'
      ? messageFrame({ type: 'reset', sub, position })
      : frame(
          TEXT,
          around(
            record,
            `{"type":"event"${sub === undefined ? '' : `,"sub":${JSON.stringify(sub)}`},"id":"${position}","action":"${action}","table":${JSON.stringify(table)},"record":`,
            '}',
          ),
        ),
  reset: (position) => messageFrame({ type: 'reset', sub, position }),
  expiring: (expiresAt) => messageFrame({ type: 'expiring', expires_at: expiresAt }),
})

export const MESSAGES: FrameFormat = formatFor()

const MAX_NAMES = 1_000
const named = entryCache<FrameFormat>(MAX_NAMES)

/** Clients choose the same names, and what is sent the same is encoded once. */
export function messagesNamed(sub: string): FrameFormat {
  const known = named.get(sub) ?? formatFor(sub)
  named.set(sub, known)
  return known
}
