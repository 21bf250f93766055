import { connect } from 'node:net'
import { createInterface } from 'node:readline'

/**
 * Many event-stream or WebSocket clients in one cheap process. Standard input: a JSON setup line, then the word `report` as often as
 * wanted; each is answered with one line of JSON and starts a new count.
 */
type Setup = {
  port: number
  paths: string[]
  perSecond: number /** Records carry the time they were sent at. */
  lag: boolean
  /** Over WebSockets: what each says first. */
  message?: string
}

const STREAM_EVENT = Buffer.from('data: {"action"')
const SOCKET_EVENT = Buffer.from('{"type":"event"')
const SENT_AT = Buffer.from('"sent_at": ')
let connected = 0
let closed = 0
let events = 0
let bytes = 0
let lags: number[] = []

const UPGRADE =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
const PING = Buffer.from([0x89, 0x00])
/** With a mask of zeros, which changes nothing. */
const masked = (opcode: number, text: string): Buffer =>
  Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | Buffer.byteLength(text), 0, 0, 0, 0]), Buffer.from(text)])

function open(port: number, path: string, message: string | undefined): void {
  const EVENT = message === undefined ? STREAM_EVENT : SOCKET_EVENT
  const first = message === undefined ? 'connected' : '"reply"'
  const socket = connect({ port, host: '127.0.0.1' })
  let begun = false
  let tail = Buffer.alloc(0)
  socket.on('connect', () => {
    socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n${message === undefined ? '' : UPGRADE}\r\n`)
    if (message !== undefined) socket.write(masked(1, message))
  })
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (message !== undefined && chunk.includes(PING)) socket.write(masked(10, ''))
    if (!begun && chunk.includes(first)) {
      begun = true
      connected++
    }
    // An event may begin at the end of one piece and go on in the next.
    if (Buffer.concat([tail, chunk.subarray(0, EVENT.length - 1)]).includes(EVENT)) events++
    tail = Buffer.from(chunk.subarray(-(EVENT.length - 1)))
    for (let at = chunk.indexOf(EVENT); at !== -1; at = chunk.indexOf(EVENT, at + EVENT.length)) {
      events++
      const sent = setup?.lag ? chunk.indexOf(SENT_AT, at) : -1
      if (sent === -1) continue
      const start = sent + SENT_AT.length
      lags.push(Date.now() - Number(chunk.toString('latin1', start, start + 13)))
    }
  })
  socket.on('close', () => closed++)
  socket.on('error', () => {})
}

const quantile = (sorted: number[], q: number): number => sorted[Math.floor((sorted.length - 1) * q)] ?? 0

const lines = createInterface({ input: process.stdin })
let setup: Setup | undefined
lines.on('line', (line) => {
  if (!setup) {
    setup = JSON.parse(line) as Setup
    const { port, paths, perSecond, message } = setup
    let next = 0
    const timer = setInterval(() => {
      for (let i = 0; i < perSecond / 20 && next < paths.length; i++) open(port, paths[next++] ?? '/', message)
      if (next >= paths.length) clearInterval(timer)
    }, 50)
    return
  }
  lags.sort((a, b) => a - b)
  const report = {
    connected,
    closed,
    events,
    bytes,
    p50: quantile(lags, 0.5),
    p99: quantile(lags, 0.99),
    max: lags.at(-1) ?? 0,
  }
  events = 0
  bytes = 0
  lags = []
  process.stdout.write(`${JSON.stringify(report)}\n`)
})
lines.on('close', () => process.exit(0))
