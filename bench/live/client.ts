import { request } from 'node:http'
import { createInterface } from 'node:readline'

/**
 * Many live lists as event streams in one process. Standard input: a JSON setup line, then the word `report` as often as wanted; each
 * is answered with one line of JSON and starts a new count.
 */
type Setup = { port: number; paths: string[] }

let [connected, closed, diffs] = [0, 0, 0]
let lags: number[] = []

function open(port: number, path: string): void {
  const outgoing = request({ port, host: '127.0.0.1', path, agent: false }, (response) => {
    let rest = ''
    response.setEncoding('latin1')
    response.on('data', (chunk: string) => {
      const events = (rest + chunk).split('\n\n')
      rest = events.pop() ?? ''
      for (const event of events) {
        if (event.startsWith('event: rows')) connected++
        if (!event.startsWith('event: diff')) continue
        diffs++
        // Of several changes in one diff each has waited.
        for (const [, sent] of event.matchAll(/"sent_at":(\d{13})/g)) lags.push(Date.now() - Number(sent))
      }
    })
    response.on('close', () => closed++)
  })
  outgoing.on('error', () => closed++)
  outgoing.end()
}

const quantile = (sorted: number[], q: number): number => sorted[Math.floor((sorted.length - 1) * q)] ?? 0

let isSetUp = false
createInterface({ input: process.stdin })
  .on('line', (line) => {
    if (!isSetUp) {
      isSetUp = true
      const { port, paths } = JSON.parse(line) as Setup
      let next = 0
      const timer = setInterval(() => {
        for (let i = 0; i < 25 && next < paths.length; i++) open(port, paths[next++] ?? '/')
        if (next >= paths.length) clearInterval(timer)
      }, 50)
      return
    }
    lags.sort((a, b) => a - b)
    const [p50, p99, max] = [quantile(lags, 0.5), quantile(lags, 0.99), lags.at(-1) ?? 0]
    process.stdout.write(`${JSON.stringify({ connected, closed, diffs, changes: lags.length, p50, p99, max })}\n`)
    diffs = 0
    lags = []
  })
  .on('close', () => process.exit(0))
