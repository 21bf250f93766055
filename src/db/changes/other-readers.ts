import { SYSTEM } from '../../core/identity.ts'
import type { Db, Notifications } from '../db.ts'
import { Loop } from '../loop.ts'
import { READERS_CHANNEL, tellOfReaders } from './sql.ts'

type Deps = {
  db: Db & Notifications
  /** Of this process. */
  id: string
  /** Whether this process has readers that wait for changes. */
  isReading: () => boolean
  onFailure: (error: unknown) => void
}

const REPEAT_MS = 10_000
/** A process that was killed is forgotten after this time. */
const FORGET_MS = 3 * REPEAT_MS
const GAP_MS = 20
const MAX_KNOWN = 1_000

/**
 * Which other processes have readers of the change log: a commit costs a NOTIFY only for them. A process says when it
 * begins and ends to read, and again and again meanwhile; one that starts asks the others. Best effort: a reader polls.
 */
export class OtherReaders {
  readonly #deps: Deps
  readonly #until = new Map<string, number>()
  #saying: Loop | undefined
  #said = false
  #asks = true
  #unlisten: (() => Promise<void>) | undefined

  constructor(deps: Deps) {
    this.#deps = deps
  }

  async start(): Promise<void> {
    const { db, onFailure } = this.#deps
    const step = (): Promise<undefined> => this.#say()
    const again = (): void => {
      this.#asks = true
      this.#saying?.poke()
    }
    this.#unlisten = await db.listen(READERS_CHANNEL, (message) => this.#hear(message), again)
    this.#saying = new Loop({ step, everyMs: REPEAT_MS, gapMs: () => GAP_MS, onFailure })
  }

  get areThere(): boolean {
    const now = performance.now()
    for (const [id, until] of this.#until) if (until < now) this.#until.delete(id)
    return this.#until.size > 0
  }

  /** Call when this process begins or ends to read. */
  changed(): void {
    if (this.#deps.isReading() !== this.#said) this.#saying?.poke()
  }

  async stop(): Promise<void> {
    await this.#unlisten?.().catch(() => undefined)
    await this.#saying?.stop()
  }

  async #say(): Promise<undefined> {
    const { db, id, isReading } = this.#deps
    const [reads, asks] = [isReading(), this.#asks]
    if (!reads && !this.#said && !asks) return
    await db.fly(SYSTEM, tellOfReaders([id, reads ? 'reads' : 'rests', asks ? 'asks' : ''].join(' ')))
    this.#said = reads
    this.#asks = false
  }

  #hear(message: string): void {
    const [id = '', state, asks] = message.split(' ')
    if (id === this.#deps.id) return
    if (state !== 'reads') this.#until.delete(id)
    else if (this.#until.size < MAX_KNOWN) this.#until.set(id, performance.now() + FORGET_MS)
    if (asks && this.#deps.isReading()) this.#saying?.poke()
  }
}
