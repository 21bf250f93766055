import { createServer } from 'node:net'

const FIRST = 20_000
const COUNT = 12_000

/**
 * A free port, for a server that starts in a moment. Below the range from which the system serves
 * listen(0) and outgoing connections, so that none of those gets it meanwhile.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * COUNT)
    if (await canListen(port)) return port
  }
}

const canListen = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
  })
