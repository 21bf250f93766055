import { reasonOf } from '../../core/errors.ts'

/** The channel that node keeps between a process and its parent; `process` and `cluster.Worker` both are one. */
export type PeerChannel = {
  send?(message: object, sent: (error: Error | null) => void): unknown
  on(event: 'message', heard: (message: unknown) => void): unknown
}

type Message =
  | { svc: 'question'; id: number; kind: string; about: unknown }
  | { svc: 'answer'; id: number; value?: unknown; failure?: string }

const isMessage = (message: unknown): message is Message =>
  typeof message === 'object' && message !== null && 'svc' in message

type Answer = Extract<Message, { svc: 'answer' }>

/**
 * Questions and answers between two processes of one server. A parent gives a worker, which may hang, only so much
 * time. A worker waits for its parent as long as that takes: without one it ends anyway.
 */
export class Peer {
  readonly #channel: PeerChannel
  readonly #patienceMs: number | undefined
  readonly #answers = new Map<string, (about: unknown) => unknown>()
  readonly #waiting = new Map<number, (onRequest: Omit<Answer, 'svc' | 'id'>) => void>()
  #lastId = 0
  #isGone = false

  constructor(channel: PeerChannel, patienceMs?: number) {
    this.#channel = channel
    this.#patienceMs = patienceMs
    channel.on('message', (message) => {
      if (!isMessage(message)) return
      if (message.svc === 'question') void this.#answer(message)
      else this.#waiting.get(message.id)?.(message)
    })
  }

  /** What the other side hears when it asks. */
  answer(kind: string, answer: (about: unknown) => unknown): void {
    this.#answers.set(kind, answer)
  }

  /** Rejects with what the other side says went wrong, when it says nothing in time, or is gone. */
  request(kind: string, about?: unknown): Promise<unknown> {
    if (this.#isGone) return Promise.reject(new Error(`nobody to ask: ${kind}`))
    const id = ++this.#lastId
    return new Promise((resolve, reject) => {
      const heard = ({ value, failure }: Omit<Answer, 'svc' | 'id'>): void => {
        clearTimeout(timer)
        this.#waiting.delete(id)
        if (failure === undefined) resolve(value)
        else reject(new Error(failure))
      }
      const timer =
        this.#patienceMs === undefined
          ? undefined
          : setTimeout(() => heard({ failure: `no answer: ${kind}` }), this.#patienceMs)
      this.#waiting.set(id, heard)
      this.#send({ svc: 'question', id, kind, about })
    })
  }

  /** The other side has ended: nobody waits for it any longer. */
  gone(): void {
    this.#isGone = true
    for (const heard of [...this.#waiting.values()]) heard({ failure: 'the process ended' })
  }

  async #answer({ id, kind, about }: Extract<Message, { svc: 'question' }>): Promise<void> {
    try {
      this.#send({ svc: 'answer', id, value: await this.#answers.get(kind)?.(about) })
    } catch (error) {
      this.#send({ svc: 'answer', id, failure: reasonOf(error) })
    }
  }

  /**
   * A channel that is closed leads to a process that ended, or is about to be seen to. Without a callback node would make
   * an event of it that ends this process too.
   */
  #send(message: Message): void {
    try {
      this.#channel.send?.(message, () => {})
    } catch {
      // as above
    }
  }
}
