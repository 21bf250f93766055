import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto'
import { reasonOf } from '../../../core/errors.ts'
import { SYSTEM } from '../../../core/identity.ts'
import type { Observe } from '../../../core/observe.ts'
import type { Db, Notifications } from '../../../db/db.ts'
import { Loop } from '../../../db/loop.ts'
import type { Sql } from '../../../db/sql.ts'
import { notifyAll, RELAY_CHANNEL } from './sql.ts'

export type ChannelMember = { from: string | null; state: unknown; ref: string }

/** What processes tell each other. `payer`: on whom a message counts. */
export type Relayable =
  | { type: 'hello' }
  | { type: 'message'; channel: string; event: string; payload: unknown; from: string | null }
  | {
      type: 'presence'
      channel: string
      joined: ChannelMember[]
      left: ChannelMember[]
      changed: ChannelMember[]
      count: number
    }
  | { type: 'remove'; channel: string; user: string }

type Deps = {
  db: Db & Notifications
  /** The same in every process of the service. */
  key: Buffer
  observe: Observe
  hear: (message: Relayable, node: string) => void
  onGap: () => void
}

/** PostgreSQL takes less than 8,000 bytes. */
const CHUNK = 7_800
const MAC_CHARS = 24
/** Of one notification in several parts, so that one of ten thousand members does not hold the others up. */
const BATCH_CHARS = 256 * 1024
const MAX_PARTIAL = 100
const MAX_PARTS = 1_000
const MAX_WAITING = 8 * 2 ** 20
const GAP_MS = 2

/**
 * Messages to the other processes, by NOTIFY, in the order in which they were given. Each batch is signed: a role that may
 * run NOTIFY in the database can neither speak for a user nor put one out.
 */
export class Relay {
  readonly node = randomUUID()
  readonly #deps: Deps
  readonly #parts = new Map<string, { batch: string; texts: string[] }>()
  #waiting: string[] = []
  #waitingChars = 0
  #batches = 0
  #loop: Loop | undefined
  #unlisten: (() => Promise<void>) | undefined

  constructor(deps: Deps) {
    this.#deps = deps
  }

  async start(): Promise<void> {
    const { db, observe, onGap } = this.#deps
    if (this.#loop) return
    this.#unlisten ??= await db.listen(RELAY_CHANNEL, (text) => this.#receive(text), onGap)
    this.#loop = new Loop({
      step: () => this.#flush(),
      everyMs: Number.POSITIVE_INFINITY,
      gapMs: () => GAP_MS,
      onFailure: (error) => observe({ message: 'channels: messages not passed on', attrs: { error: reasonOf(error) } }),
    })
  }

  /** Whether more can wait; when not, the sender has to. */
  get isFull(): boolean {
    return this.#waitingChars > MAX_WAITING
  }

  publish(message: Relayable): void {
    const text = asciiOf(message)
    this.#waiting.push(text)
    this.#waitingChars += text.length
    this.#loop?.poke()
  }

  /** As a statement for the transaction of what is told. */
  tell(messages: readonly Relayable[]): Sql {
    return notifyAll(this.#chunksOf(messages.map(asciiOf)))
  }

  async stop(): Promise<void> {
    await this.#unlisten?.().catch(() => undefined)
    await this.#flush().catch(() => undefined)
    await this.#loop?.stop()
  }

  /** Once: what could not be told is lost, as it is for a member who was not there. */
  async #flush(): Promise<undefined> {
    if (this.#waiting.length === 0) return
    const texts = this.#waiting
    this.#waiting = []
    this.#waitingChars = 0
    await this.#deps.db.fly(SYSTEM, notifyAll(this.#chunksOf(texts)))
  }

  #chunksOf(texts: readonly string[]): string[] {
    const chunks: string[] = []
    let batch: string[] = []
    let chars = 0
    const close = (): void => {
      if (batch.length > 0) chunks.push(...this.#partsOf(`[${batch.join(',')}]`))
      batch = []
      chars = 0
    }
    for (const text of texts) {
      if (chars + text.length > BATCH_CHARS) close()
      batch.push(text)
      chars += text.length
    }
    close()
    return chunks
  }

  #partsOf(json: string): string[] {
    const head = `${this.node} ${++this.#batches}`
    const signed = `${this.#mac(head, json)}${json}`
    const count = Math.ceil(signed.length / CHUNK)
    return Array.from({ length: count }, (_, i) => `${head} ${i} ${count} ${signed.slice(i * CHUNK, (i + 1) * CHUNK)}`)
  }

  #mac(head: string, json: string): string {
    return createHmac('sha256', this.#deps.key).update(`${head} ${json}`).digest('base64').slice(0, MAC_CHARS)
  }

  /** The parts of a batch come one after the other, because they are of one transaction. */
  #receive(text: string): void {
    const [, node, batch, part, count, content = ''] = /^([0-9a-f-]{36}) (\d+) (\d+) (\d+) (.*)$/s.exec(text) ?? []
    if (node === undefined || batch === undefined || node === this.node) return
    const known = Number(part) === 0 ? { batch, texts: [] } : this.#parts.get(node)
    if (known?.batch !== batch || known.texts.length !== Number(part)) return void this.#parts.delete(node)
    known.texts.push(content)
    if (known.texts.length < Number(count)) {
      // More than there are processes: notifications of others, which are signed by none.
      if (this.#parts.size >= MAX_PARTIAL) this.#parts.clear()
      if (known.texts.length >= MAX_PARTS) this.#parts.delete(node)
      else this.#parts.set(node, known)
      return
    }
    this.#parts.delete(node)
    const whole = known.texts.join('')
    const [given, json] = [whole.slice(0, MAC_CHARS), whole.slice(MAC_CHARS)]
    const right = this.#mac(`${node} ${batch}`, json)
    if (given.length !== right.length || !timingSafeEqual(Buffer.from(given), Buffer.from(right))) return
    for (const message of JSON.parse(json) as Relayable[]) this.#deps.hear(message, node)
  }
}

/** JSON without other characters than ASCII, which can be cut anywhere. */
const asciiOf = (message: Relayable): string =>
  JSON.stringify(message).replace(
    /[\u0080-\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
