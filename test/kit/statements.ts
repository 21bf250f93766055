import type { Socket } from 'node:net'
import { startProxy } from './proxy.ts'

/** The statements that servers on `url` send, one after the other, as PostgreSQL is told them. */
export async function overhearStatements(
  databaseUrl: string,
): Promise<{ url: string; during(work: () => Promise<unknown>): Promise<string[]>; close(): Promise<void> }> {
  const heard: string[] = []
  const lines = new Map<Socket, Line>()
  const proxy = await startProxy(databaseUrl, (client, chunk) => {
    const line = lines.get(client) ?? new Line(heard)
    lines.set(client, line)
    line.take(chunk)
  })
  return {
    url: proxy.url,
    async during(work) {
      const from = heard.length
      await work()
      return heard.slice(from)
    },
    close: () => proxy.close(),
  }
}

/** What a client says on one connection: https://www.postgresql.org/docs/current/protocol-message-formats.html */
class Line {
  readonly #heard: string[]
  readonly #named = new Map<string, string>()
  #rest: Buffer = Buffer.alloc(0)
  #isStarted = false

  constructor(heard: string[]) {
    this.#heard = heard
  }

  take(chunk: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, chunk])
    for (;;) {
      // The first message has no type.
      const head = this.#isStarted ? 1 : 0
      if (this.#rest.length < head + 4) return
      const end = head + this.#rest.readInt32BE(head)
      if (this.#rest.length < end) return
      const [type, body] = [
        this.#isStarted ? this.#rest.toString('latin1', 0, 1) : '',
        this.#rest.subarray(head + 4, end),
      ]
      this.#rest = this.#rest.subarray(end)
      this.#isStarted = true
      this.#hear(type, body)
    }
  }

  #hear(type: string, body: Buffer): void {
    const [first = '', second = ''] = body.toString('utf8').split('\0')
    if (type === 'Q') this.#heard.push(first)
    if (type === 'P') this.#named.set(first, second)
    if (type === 'B') this.#heard.push(this.#named.get(second) ?? `unknown statement ${second}`)
  }
}
