import { reasonOf } from '../../core/errors.ts'

/** The channel that node keeps between a process and its parent; `process` and `cluster.Worker` both are one. */
export type Channel = {
  send?(message: object): unknown
  on(event: 'message', heard: (message: unknown) => void): unknown
}

type Message =
  | { svc: 'question'; id: number; kind: string; about: unknown }
  | { svc: 'answer'; id: number; value?: unknown; failure?: string }

const isMessage = (message: unknown): message is Message =>
  typeof message === 'object' && message !== null && 'svc' in message

const TIMEOUT_MS = 5_000

/** Questions and answers between two processes of one server. */
export class Peer {
  readonly #channel: Channel
  readonly #answers = new Map<string, (about: unknown) => unknown>()
  readonly #waiting = new Map<number, (answer: Extract<Message, { svc: 'answer' }>) => void>()
  #lastId = 0

  constructor(channel: Channel) {
    this.#channel = channel
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

  /** Rejects with what the other side says went wrong, or when it says nothing. */
  ask(kind: string, about?: unknown, timeoutMs = TIMEOUT_MS): Promise<unknown> {
    const id = ++this.#lastId
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        clearTimeout(timer)
        this.#waiting.delete(id)
      }
      const timer = setTimeout(() => {
        settle()
        reject(new Error(`no answer: ${kind}`))
      }, timeoutMs)
      this.#waiting.set(id, ({ value, failure }) => {
        settle()
        if (failure === undefined) resolve(value)
        else reject(new Error(failure))
      })
      this.#send({ svc: 'question', id, kind, about })
    })
  }

  async #answer({ id, kind, about }: Extract<Message, { svc: 'question' }>): Promise<void> {
    try {
      this.#send({ svc: 'answer', id, value: await this.#answers.get(kind)?.(about) })
    } catch (error) {
      this.#send({ svc: 'answer', id, failure: reasonOf(error) })
    }
  }

  /** A channel that is closed leads to a process that ended; whoever waits for it notices by the time. */
  #send(message: Message): void {
    try {
      this.#channel.send?.(message)
    } catch {
      // as above
    }
  }
}
