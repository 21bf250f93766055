import { reasonOf } from '../../core/errors.ts'
import { type Identity, SYSTEM, userIdOf } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import { isUuid } from '../../core/uuid.ts'
import type { Db } from '../../db/db.ts'
import { insertTraces } from './sql.ts'

export type Trace = {
  readonly who: Identity
  readonly tool: string
  readonly clientId: string
  readonly tables: readonly string[]
  readonly rows: number
  readonly requestId: string
  readonly ip: string
  /** Of a refused call. */
  readonly error?: string
}

const FLUSH_MS = 100
const MOST_AT_ONCE = 200
/** Entries that wait; beyond them calls wait too. */
const MOST_WAITING = 5_000

/** As the database takes it: action, target and values. */
export const entryOf = ({ tool, clientId, tables, rows, requestId, error }: Omit<Trace, 'who'>) => ({
  action: `agent.${tool}`,
  target: tables.join(',').slice(0, 200),
  values: {
    client: clientId,
    tool,
    tables: tables.slice(0, 20),
    rows,
    request_id: requestId,
    ...(error !== undefined && { error }),
  },
})

/** Every call of an agent in the audit trail. Reads a moment later, so that they do not wait for it. */
export class Trail {
  readonly #db: Db
  readonly #observe: Observe
  #waiting: Trace[] = []
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> = Promise.resolve()

  constructor(db: Db, observe: Observe) {
    this.#db = db
    this.#observe = observe
  }

  async note(trace: Trace): Promise<void> {
    this.#waiting.push(trace)
    this.#timer ??= setTimeout(() => void this.flush(), FLUSH_MS).unref()
    if (this.#waiting.length >= MOST_WAITING) await this.flush()
  }

  flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#writing = this.#writing.then(() => this.#write())
    return this.#writing
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const some = this.#waiting.splice(0, MOST_AT_ONCE)
      const entries = some.map((trace) => {
        const { action, target, values } = entryOf(trace)
        const { who, ip } = trace
        const [userId, keyId] = [userIdOf(who), who.kind === 'key' && isUuid(who.keyId) ? who.keyId : null]
        return { action, target, values, ip, userId, keyId }
      })
      await this.#db
        .run(SYSTEM, insertTraces(JSON.stringify(entries).replaceAll('\\u0000', '')))
        .catch((error: unknown) => {
          const [{ requestId, ip } = { requestId: '', ip: '' }] = some
          const attrs = { action: 'agent', target: `${some.length} calls`, ip, requestId, error: reasonOf(error) }
          this.#observe({ message: 'audit entry lost', attrs })
        })
    }
  }
}
