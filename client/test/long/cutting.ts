import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { atEnd } from '../../../test/kit/at-end.ts'

export type CuttingProxy = {
  url: string
  /** Where connections go from now on. */
  port: number
  /** Cuts everything that is open now. */
  cut(): void
  cuts(): number
  /** Nothing more goes through what is open now, and nothing says so. */
  freeze(): void
}

/**
 * Stands between a client and a server and cuts connections at random moments: before the request is whole, after it was
 * sent, in the middle of the answer, after it. `share`: how many pieces of a thousand end with a cut.
 */
export async function startCuttingProxy(port: number, share: number): Promise<CuttingProxy> {
  const pairs = new Set<[Socket, Socket]>()
  let cuts = 0
  const server = createServer((client) => {
    const upstream = connect(proxy.port, '127.0.0.1')
    const pair: [Socket, Socket] = [client, upstream]
    pairs.add(pair)
    const end = (): void => {
      pairs.delete(pair)
      for (const socket of pair) socket.destroy()
    }
    const relay = (from: Socket, to: Socket): void => {
      from.on('data', (chunk) => {
        if (Math.random() * 1000 >= share) return void to.write(chunk)
        cuts++
        // A part of it, all of it or nothing.
        const part = chunk.subarray(0, Math.floor(Math.random() * (chunk.length + 1)))
        to.write(part, end)
      })
      from.on('error', end).on('close', end)
    }
    relay(client, upstream)
    relay(upstream, client)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEnd(() => {
    proxy.cut()
    server.close()
  })
  const proxy: CuttingProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    port,
    cut() {
      for (const pair of pairs) for (const socket of pair) socket.destroy()
    },
    cuts: () => cuts,
    freeze() {
      for (const pair of pairs) for (const socket of pair) socket.pause()
    },
  }
  return proxy
}
