import { type LogEntry, levelOf, type Observation, type Observe } from '../../core/observe.ts'
import { maskMessage, maskSecrets } from '../../core/redact.ts'
import { randomHex } from '../../core/secret.ts'

export type Ring = { sink: Observe; entries(): LogEntry[] }

type RingEntry = { at: number; number: number; observation: Observation; entry?: LogEntry }

/** A ring buffer of the last `size` observations. */
export function createRing(size: number, now: () => number = Date.now): Ring {
  const tag = randomHex(4)
  const kept: RingEntry[] = []
  let next = 0
  let number = 0
  return {
    sink(observation) {
      if (size === 0) return
      kept[next] = { at: now(), number: ++number, observation }
      next = (next + 1) % size
    },
    entries: () =>
      [...kept.slice(next), ...kept.slice(0, next)].map((one) => {
        // Masked once, because followers read again and again.
        one.entry ??= entryOf(tag, one)
        return one.entry
      }),
  }
}

function entryOf(tag: string, { at, number, observation }: RingEntry): LogEntry {
  const { message, attrs, verbatim } = observation
  return {
    id: `${tag}-${number}`,
    time: new Date(at).toISOString(),
    level: levelOf(observation).toUpperCase(),
    message: maskSecrets(message),
    ...(attrs && { attrs: withoutSecrets(attrs, verbatim ? maskMessage : maskSecrets) }),
  }
}

type Attrs = NonNullable<Observation['attrs']>

/** Masks on read, because most entries are overwritten unread. A recipient is no secret, though a number may look like a code. */
const withoutSecrets = (attrs: Attrs, mask: (text: string) => string): Attrs =>
  Object.fromEntries(
    Object.entries(attrs).map(([name, value]) => [
      name,
      typeof value === 'string' && name !== 'to' ? mask(value) : value,
    ]),
  )
