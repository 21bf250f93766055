/**
 * Another client's request, over and over: how long it waits is how long the server was kept from everything else. A
 * process of its own, so that it is not held up itself. Each line on standard input is answered with the longest wait
 * since the last one, in milliseconds.
 */

import { Agent, get } from 'node:http'
import { createInterface } from 'node:readline'

const port = Number(process.argv[2])
const agent = new Agent({ keepAlive: true })
let worst = 0

const ask = (): void => {
  const began = performance.now()
  get({ host: '127.0.0.1', port, path: '/health', agent }, (answer) => {
    answer.resume().on('end', () => {
      worst = Math.max(worst, performance.now() - began)
      setTimeout(ask, 1)
    })
  })
}

createInterface(process.stdin)
  .on('line', () => {
    process.stdout.write(`${worst.toFixed(2)}\n`)
    worst = 0
  })
  .on('close', () => process.exit())
ask()
