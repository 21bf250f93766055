/**
 * Ordinary clients, in a process of their own. Standard input: a JSON setup line, then `report` as often as wanted, which
 * answers with what happened since the last time, and `verify`, which looks whether every acknowledged write is there.
 */
import { Agent, type IncomingMessage, request } from 'node:http'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { openConnection } from '../../src/db/wire/connect.ts'

export type OrdinarySetup = { ports: number[]; databaseUrl: string; tokens: string[]; thinkMs: number }

export type Report = {
  count: number
  p50: number
  p99: number
  p999: number
  /** By kind of call, p99 in milliseconds. */
  kinds: Record<string, number>
  /** 429 and 503, by message. */
  refused: Record<string, number>
  /** Any other answer that is no success. */
  failed: Record<string, number>
  /** Connections that ended under a call; it was made again. */
  broken: number
}

export type Verdict = { acknowledged: number; missing: number }

type Answered = { status: number; text: string }
type Asked = { kind: string; method: string; path: string; json?: object; isFine?: (status: number) => boolean }

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const { ports, databaseUrl, tokens, thinkMs } = JSON.parse((await lines.next()).value ?? '') as OrdinarySetup

const took: { kind: string; ms: number }[] = []
let refused: Report['refused'] = {}
let failed: Report['failed'] = {}
let broken = 0
let isOver = false
/** client → the highest n that its row is known to have, and the rows it made. */
const patched = new Map<number, number>()
const made: string[] = []

const count = (where: Record<string, number>, what: string) => {
  where[what] = (where[what] ?? 0) + 1
}

function once(agent: Agent, port: number, token: string, from: string, { method, path, json }: Asked) {
  return new Promise<Answered>((resolve, reject) => {
    const body = json && JSON.stringify(json)
    const headers = {
      authorization: `Bearer ${token}`,
      'x-forwarded-for': from,
      ...(body && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
    }
    const asked = request({ host: '127.0.0.1', port, method, path, headers, agent }, (answer: IncomingMessage) => {
      let text = ''
      answer.setEncoding('utf8').on('data', (chunk) => (text += chunk))
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text })).on('error', reject)
    })
    asked.on('error', reject).end(body)
  })
}

async function client(number: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const token = tokens[number % tokens.length] ?? ''
  const from = `192.168.1.${1 + number}`
  let port = ports[number % ports.length] ?? 0

  /** Until it is answered with success, by whichever server is there. */
  const ask = async (asked: Asked): Promise<void> => {
    while (!isOver) {
      const began = performance.now()
      try {
        const { status, text } = await once(agent, port, token, from, asked)
        if (status < 300 || asked.isFine?.(status)) {
          took.push({ kind: asked.kind, ms: performance.now() - began })
          return
        }
        count(status === 429 || status === 503 ? refused : failed, `${asked.kind} ${status} ${text.slice(0, 80)}`)
      } catch {
        broken++
        port = ports[(ports.indexOf(port) + 1) % ports.length] ?? 0
      }
      await sleep(100)
    }
  }

  await ask({
    kind: 'create',
    method: 'POST',
    path: '/api/collections/journal',
    json: { id: `${number}`, n: 0 },
    isFine: (status) => status === 409,
  })
  for (let turn = 1; !isOver; turn++) {
    const id = `${number}-${turn}`
    const work: [Asked, (() => unknown)?][] = [
      [{ kind: 'read', method: 'GET', path: `/api/collections/notes/${1 + ((turn * 7919 + number) % 10_000)}` }],
      [{ kind: 'list', method: 'GET', path: '/api/collections/notes?perPage=20&sort=-id&skipTotal=true' }],
      [
        // Made twice if the first answer was lost with its server: then the row is there already.
        {
          kind: 'create',
          method: 'POST',
          path: '/api/collections/journal',
          json: { id, n: turn },
          isFine: (status) => status === 409,
        },
        () => made.push(id),
      ],
      [
        { kind: 'update', method: 'PATCH', path: `/api/collections/journal/${number}`, json: { n: turn } },
        () => patched.set(number, turn),
      ],
      [{ kind: 'me', method: 'GET', path: '/api/auth/me' }],
    ]
    for (const [asked, acknowledged] of work) {
      await ask(asked)
      if (!isOver) acknowledged?.()
      if (thinkMs > 0) await sleep(thinkMs * (0.5 + Math.random()))
    }
  }
  agent.destroy()
}

function report(): Report {
  const all = took.splice(0)
  const at = (share: number, kind?: string) => {
    const sorted = all
      .filter((call) => kind === undefined || call.kind === kind)
      .map(({ ms }) => ms)
      .sort((a, b) => a - b)
    return sorted[Math.floor(sorted.length * share)] ?? 0
  }
  const kinds = Object.fromEntries([...new Set(all.map(({ kind }) => kind))].map((kind) => [kind, at(0.99, kind)]))
  const said = { count: all.length, p50: at(0.5), p99: at(0.99), p999: at(0.999), kinds, refused, failed, broken }
  refused = {}
  failed = {}
  broken = 0
  return said
}

async function verify(): Promise<Verdict> {
  isOver = true
  await running
  const db = await openConnection({ url: databaseUrl })
  const { rows } = await db.query<{ id: string; n: string }>('select id, n from public.journal')
  await db.end()
  const kept = new Map(rows.map(({ id, n }) => [id, Number(n)]))
  const lost = made.filter((id) => !kept.has(id)).length
  const stale = [...patched].filter(([number, n]) => (kept.get(`${number}`) ?? -1) < n).length
  return { acknowledged: made.length + patched.size, missing: lost + stale }
}

const running = Promise.all(Array.from({ length: 32 }, (_, i) => client(i)))
for await (const line of { [Symbol.asyncIterator]: () => lines }) {
  if (line === 'report') console.log(JSON.stringify(report()))
  else {
    console.log(JSON.stringify(await verify()))
    break
  }
}
process.exit()
