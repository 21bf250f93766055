import { type LogEntry, levelOf, type Observation, type Observe } from '../../core/observe.ts'
import { maskMessage, maskSecrets } from '../../core/redact.ts'

export type Ring = { sink: Observe; entries(): LogEntry[] }

type RingEntry = { at: number; observation: Observation }

/** A ring buffer of the last `size` observations. */
export function createRing(size: number, now: () => number = Date.now): Ring {
  const kept: RingEntry[] = []
  let next = 0
  return {
    sink(observation) {
      if (size === 0) return
      kept[next] = { at: now(), observation }
      next = (next + 1) % size
    },
    entries: () => [...kept.slice(next), ...kept.slice(0, next)].map(entryOf),
  }
}

function entryOf({ at, observation }: RingEntry): LogEntry {
  const { message, attrs, verbatim } = observation
  return {
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
