import { connect, type Socket } from 'node:net'

export type Asked = { method: string; path: string; token?: string; body?: string }

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

/** Sent as raw bytes, so that the generator costs less than what it measures. */
function bytesOf({ method, path, token, body = '' }: Asked): Buffer {
  const headers = [`${method} ${path} HTTP/1.1`, 'Host: bench', 'Connection: keep-alive']
  if (token) headers.push(`Authorization: Bearer ${token}`)
  if (body) headers.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`)
  return Buffer.from(`${headers.join('\r\n')}\r\n\r\n${body}`)
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

/** Calls back once per whole response: status line, Content-Length, body. */
function onAnswers(socket: Socket, answered: (status: string) => void): void {
  let pending: Buffer = Buffer.alloc(0)
  let missing = 0
  let status = ''
  socket.on('data', (chunk: Buffer) => {
    if (missing > 0) {
      if (chunk.length < missing) {
        missing -= chunk.length
        return
      }
      const rest = chunk.subarray(missing)
      missing = 0
      answered(status)
      if (rest.length === 0) return
      chunk = rest
    }
    pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk])
    for (;;) {
      const end = pending.indexOf('\r\n\r\n')
      if (end < 0) return
      const head = pending.toString('latin1', 0, end)
      status = head.slice(9, 12)
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0)
      const have = pending.length - end - 4
      if (have < length) {
        missing = length - have
        pending = Buffer.alloc(0)
        return
      }
      pending = pending.subarray(end + 4 + length)
      answered(status)
      if (pending.length === 0) return
    }
  })
}

// As a process of its own: the load as JSON on standard input, the measurement on standard output.
if (process.argv[1]?.endsWith('load.ts') || process.argv[1]?.endsWith('load.js')) {
  let input = ''
  for await (const chunk of process.stdin) input += chunk
  process.stdout.write(JSON.stringify(await run(JSON.parse(input) as Load)))
}
