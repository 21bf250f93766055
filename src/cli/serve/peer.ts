import { reasonOf } from '../../core/errors.ts'

/** The IPC channel between a process and its parent: `process` or a `cluster.Worker`. */
export type PeerChannel = {
  send?(message: object, sent: (error: Error | null) => void): unknown
  on(event: 'message', listener: (message: unknown) => void): unknown
}

type Message =
  | { svc: 'request'; id: number; kind: string; params: unknown }
  | { svc: 'response'; id: number; value?: unknown; failure?: string }

const isMessage = (message: unknown): message is Message =>
  typeof message === 'object' && message !== null && 'svc' in message

type Result = Pick<Extract<Message, { svc: 'response' }>, 'value' | 'failure'>

/**
 * Requests and responses between two processes of one server. A parent passes a timeout, because a worker may hang. A
 * worker waits for its parent without a timeout, because it exits with its parent.
 */
export class Peer {
  readonly #channel: PeerChannel
  readonly #timeoutMs: number | undefined
  readonly #handlers = new Map<string, (params: unknown) => unknown>()
  readonly #pending = new Map<number, (result: Result) => void>()
  #lastId = 0
  #isGone = false

  constructor(channel: PeerChannel, timeoutMs?: number) {
    this.#channel = channel
    this.#timeoutMs = timeoutMs
    channel.on('message', (message) => {
      if (!isMessage(message)) return
      if (message.svc === 'request') void this.#respond(message)
      else this.#pending.get(message.id)?.(message)
    })
  }

  /** Sets the handler for requests of the other process. */
  onRequest(kind: string, handler: (params: unknown) => unknown): void {
    this.#handlers.set(kind, handler)
  }

  /** Rejects with the other process's failure, after the timeout, or when the other process has exited. */
  request(kind: string, params?: unknown): Promise<unknown> {
    if (this.#isGone) return Promise.reject(new Error(`nobody to ask: ${kind}`))
    const id = ++this.#lastId
    return new Promise((resolve, reject) => {
      const finish = ({ value, failure }: Result): void => {
        clearTimeout(timer)
        this.#pending.delete(id)
        if (failure === undefined) resolve(value)
        else reject(new Error(failure))
      }
      const timer =
        this.#timeoutMs === undefined
          ? undefined
          : setTimeout(() => finish({ failure: `no answer: ${kind}` }), this.#timeoutMs)
      this.#pending.set(id, finish)
      this.#send({ svc: 'request', id, kind, params })
    })
  }

  /** The other process has exited: all pending requests fail. */
  gone(): void {
    this.#isGone = true
    for (const finish of [...this.#pending.values()]) finish({ failure: 'the process ended' })
  }

  async #respond({ id, kind, params }: Extract<Message, { svc: 'request' }>): Promise<void> {
    try {
      this.#send({ svc: 'response', id, value: await this.#handlers.get(kind)?.(params) })
    } catch (error) {
      this.#send({ svc: 'response', id, failure: reasonOf(error) })
    }
  }

  /**
   * Ignores a closed channel, because its process has exited and `gone` follows. Without the callback node would emit an
   * `error` event that ends this process too.
   */
  #send(message: Message): void {
    try {
      this.#channel.send?.(message, () => {})
    } catch {
      // as above
    }
  }
}
