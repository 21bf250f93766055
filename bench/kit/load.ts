import { connect } from 'node:net'
import { type Asked, bytesOf, onAnswers } from './raw.ts'

/** One request, or several in turn. */
export type Load = {
  port: number
  requests: readonly Asked[]
  connections: number
  seconds: number
}

export type Measured = {
  rps: number
  count: number
  p50: number
  p99: number
  p999: number
  errors: number
  statuses: Record<string, number>
}

/** Keeps one request under way on each connection until the time is up. */
async function run({ port, requests: asked, connections, seconds }: Load): Promise<Measured> {
  const requests = asked.map(bytesOf)
  const latencies: number[] = []
  const statuses: Record<string, number> = {}
  let errors = 0
  let turn = 0
  const started = performance.now()
  const deadline = started + seconds * 1000

  const drive = () =>
    new Promise<void>((resolve) => {
      const socket = connect(port, '127.0.0.1')
      socket.setNoDelay(true)
      let sentAt = 0
      const send = () => {
        if (performance.now() >= deadline) {
          socket.destroy()
          return
        }
        sentAt = performance.now()
        socket.write(requests[turn++ % requests.length] as Buffer)
      }
      onAnswers(socket, (status) => {
        latencies.push(performance.now() - sentAt)
        statuses[status] = (statuses[status] ?? 0) + 1
        send()
      })
      socket.once('connect', send)
      socket.once('error', () => errors++)
      socket.once('close', () => resolve())
    })

  await Promise.all(Array.from({ length: connections }, drive))
  const took = (performance.now() - started) / 1000
  latencies.sort((a, b) => a - b)
  const at = (q: number) => latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * q))] ?? 0
  return {
    rps: latencies.length / took,
    count: latencies.length,
    p50: at(0.5),
    p99: at(0.99),
    p999: at(0.999),
    errors,
    statuses,
  }
}

// As a process of its own: the load as JSON on standard input, the measurement on standard output.
if (process.argv[1]?.endsWith('load.ts') || process.argv[1]?.endsWith('load.js')) {
  let input = ''
  for await (const chunk of process.stdin) input += chunk
  process.stdout.write(JSON.stringify(await run(JSON.parse(input) as Load)))
}
