import { createInterface } from 'node:readline'
import { WebSocket } from 'ws'

/**
 * Many WebSockets in one process that hear a channel or a table. Standard input: a JSON setup line, then the word `report` as often
 * as wanted, each of which is answered with one line of JSON: how many are there, and what they have heard in all.
 */
type Setup = { ports: number[]; token: string; members: number; join: object; heard: string }

let [ready, heard] = [0, 0]

function open({ ports, token, join, heard: kind }: Setup, i: number): void {
  const socket = new WebSocket(`ws://127.0.0.1:${ports[i % ports.length]}/api/realtime/ws`)
  const mark = Buffer.from(`"type":"${kind}"`)
  socket.on('open', () => {
    socket.send(JSON.stringify({ type: 'auth', token, ref: 1 }))
    socket.send(JSON.stringify({ ...join, ref: 2 }))
  })
  socket.on('message', (data: Buffer) => {
    if (data.includes(mark)) heard++
    else if (data.includes('"ref":2') && data.includes('"ok"')) ready++
  })
  socket.on('error', () => undefined)
}

let isSetUp = false
createInterface({ input: process.stdin })
  .on('line', (line) => {
    if (isSetUp) process.stdout.write(`${JSON.stringify({ ready, heard })}\n`)
    else {
      isSetUp = true
      const setup = JSON.parse(line) as Setup
      for (let i = 0; i < setup.members; i++) open(setup, i)
    }
  })
  .on('close', () => process.exit(0))
