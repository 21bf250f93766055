import { closeSync, openSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const FIRST = 20_000
const COUNT = 12_000

/**
 * A free port, for a server that starts in a moment. Below the range from which the system serves
 * listen(0) and outgoing connections, so that none of those gets it meanwhile.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * COUNT)
    if (claim(port) && (await canListen(port))) return port
  }
}

/** Until it ends, no other process of the run gets the port, which it may be about to listen on. */
function claim(port: number): boolean {
  const file = join(tmpdir(), `svc-port-${port}`)
  try {
    closeSync(openSync(file, 'wx'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
  claimed.push(file)
  return true
}

const claimed: string[] = []
process.once('exit', () => {
  for (const file of claimed) rmSync(file, { force: true })
})

const canListen = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
  })
