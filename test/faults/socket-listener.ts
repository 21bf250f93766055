import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const TEXT = 1
const PING = 9
const PONG = 10
const HANDSHAKE =
  'GET /api/realtime/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
  'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'

/** With a mask of zeros, which changes nothing. */
const frame = (opcode: number, text: string): Buffer =>
  Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | Buffer.byteLength(text), 0, 0, 0, 0]), Buffer.from(text)])

/** Hands over each whole frame of `bytes` (RFC 6455 §5.2, from a server: without a mask) and gives back the rest. */
function frames(bytes: Buffer, take: (opcode: number, payload: string) => void): Buffer {
  let at = 0
  while (at + 2 <= bytes.length) {
    const short = (bytes[at + 1] ?? 0) & 0x7f
    const head = short === 126 ? 4 : 2
    if (short === 127) throw new Error('a frame of more than 64 kB')
    if (at + head > bytes.length) break
    const end = at + head + (short === 126 ? bytes.readUInt16BE(at + 2) : short)
    if (end > bytes.length) break
    take((bytes[at] ?? 0) & 0x0f, bytes.toString('latin1', at + head, end))
    at = end
  }
  return bytes.subarray(at)
}

/**
 * Listens to the table `events` until told to stop, on whichever server answers, resuming by its last id. Reads no more of a
 * message than the number of its row: hundreds of these share their machine with the servers that they listen to.
 */
export function listener(urls: readonly string[], first: number) {
  const heard: number[] = []
  let resets = 0
  let lastEvent: string | undefined
  let position: string | undefined
  let stopped = false
  let socket: Socket | undefined

  const take = (opcode: number, payload: string): void => {
    if (opcode === PING) socket?.write(frame(PONG, ''))
    if (opcode !== TEXT) return
    if (payload.startsWith('{"type":"event"')) {
      heard.push(Number.parseInt(payload.slice(payload.lastIndexOf('"n":') + 4), 10))
      lastEvent = payload
    } else {
      const message = JSON.parse(payload)
      if (message.type === 'reset') resets++
      if (message.type === 'reply') position ??= message.position
    }
  }
  const listen = (url: string): Promise<void> =>
    new Promise((resolve) => {
      const since = lastEvent === undefined ? position : JSON.parse(lastEvent).id
      let upgraded = false
      let rest: Buffer = Buffer.alloc(0)
      socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1' }, () => {
        const message = {
          type: 'subscribe',
          tables: ['events'],
          ...(since !== undefined && { last_id: since }),
          ref: 1,
        }
        socket?.write(Buffer.concat([Buffer.from(HANDSHAKE), frame(TEXT, JSON.stringify(message))]))
      })
      socket.on('data', (chunk: Buffer) => {
        rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
        if (!upgraded) {
          const end = rest.indexOf('\r\n\r\n')
          if (end === -1) return
          upgraded = rest.toString('latin1', 0, 12) === 'HTTP/1.1 101'
          if (!upgraded) return void socket?.destroy()
          rest = rest.subarray(end + 4)
        }
        rest = frames(rest, take)
      })
      socket.on('error', () => {})
      socket.on('close', () => resolve())
    })
  const done = (async () => {
    for (let turn = first; !stopped; turn++) {
      await listen(urls[turn % urls.length] ?? '')
      await sleep(100)
    }
  })()
  const stop = async (): Promise<void> => {
    stopped = true
    socket?.destroy()
    await done
  }
  return { heard, resets: () => resets, isReady: () => position !== undefined, stop }
}
