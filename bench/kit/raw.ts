/** HTTP as raw bytes, so that a generator of load costs less than what it measures. */
import { connect, type Socket } from 'node:net'

export type Asked = { method: string; path: string; token?: string; from?: string; body?: string }

export function bytesOf({ method, path, token, from, body = '' }: Asked): Buffer {
  const headers = [`${method} ${path} HTTP/1.1`, 'Host: bench', 'Connection: keep-alive']
  if (token) headers.push(`Authorization: Bearer ${token}`)
  if (from) headers.push(`X-Forwarded-For: ${from}`)
  if (body) headers.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`)
  return Buffer.from(`${headers.join('\r\n')}\r\n\r\n${body}`)
}

/** Calls back once per whole response: status line, Content-Length, body; with as much of the body as came with its head. */
export function onAnswers(socket: Socket, answered: (status: string, body: Buffer) => void): void {
  let pending: Buffer = Buffer.alloc(0)
  let missing = 0
  let status = ''
  let body: Buffer = pending
  socket.on('data', (chunk: Buffer) => {
    if (missing > 0) {
      if (chunk.length < missing) {
        missing -= chunk.length
        return
      }
      const rest = chunk.subarray(missing)
      missing = 0
      answered(status, body)
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
      body = pending.subarray(end + 4, end + 4 + length)
      if (have < length) {
        missing = length - have
        pending = Buffer.alloc(0)
        return
      }
      pending = pending.subarray(end + 4 + length)
      answered(status, body)
      if (pending.length === 0) return
    }
  })
}

export type Answered = { status: number; body: string }

/** One request at a time, over a connection that is made anew when it has ended. */
export function caller(): { ask(port: number, asked: Asked): Promise<Answered>; end(): void } {
  let line: { port: number; socket: Socket } | undefined
  let waiting: { resolve: (answer: Answered) => void; reject: (error: Error) => void } | undefined

  const lineTo = (port: number): Socket => {
    if (line?.port === port && line.socket.writable) return line.socket
    line?.socket.destroy()
    const socket = connect(port, '127.0.0.1').setNoDelay(true)
    line = { port, socket }
    onAnswers(socket, (status, body) =>
      waiting?.resolve({ status: Number(status), body: body.toString('utf8', 0, 200) }),
    )
    const broken = () => line?.socket === socket && waiting?.reject(new Error('the connection ended'))
    socket.on('error', () => {}).on('close', broken)
    return socket
  }
  return {
    ask: (port, asked) =>
      new Promise((resolve, reject) => {
        waiting = { resolve, reject }
        lineTo(port).write(bytesOf(asked))
      }),
    end: () => line?.socket.destroy(),
  }
}
