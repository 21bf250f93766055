// What the client promises, as code that runs wherever the client does: it imports nothing but the client.
import { calls } from './calls.ts'
import { events } from './events.ts'
import type { Cases } from './kit.ts'
import { people } from './people.ts'
import { rows } from './rows.ts'

export const cases: Cases = { ...rows, ...people, ...calls, ...events }
