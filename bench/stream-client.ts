import { connect } from 'node:net'
import { createInterface } from 'node:readline'

/**
 * Many event-stream clients in one cheap process. Standard input: a JSON setup line, then the word `report` as often as
 * wanted; each is answered with one line of JSON and starts a new count.
 */
type Setup = {
  port: number
  paths: string[]
  perSecond: number /** Records carry the time they were sent at. */
  lag: boolean
}

const EVENT = Buffer.from('data: {"action"')
const SENT_AT = Buffer.from('"sent_at": ')
let connected = 0
let closed = 0
let events = 0
let bytes = 0
let lags: number[] = []

function open(port: number, path: string): void {
  const socket = connect({ port, host: '127.0.0.1' })
  let begun = false
  let tail = Buffer.alloc(0)
  socket.on('connect', () => socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`))
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (!begun && chunk.includes('connected')) {
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
    const { port, paths, perSecond } = setup
    let next = 0
    const timer = setInterval(() => {
      for (let i = 0; i < perSecond / 20 && next < paths.length; i++) open(port, paths[next++] ?? '/')
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
