/**
 * Ordinary clients, in a process of their own. Standard input: a JSON setup line, then `report` as often as wanted, which
 * answers with what happened since the last time, and `verify`, which looks whether every acknowledged write is there.
 */
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { openConnection } from '../../src/db/protocol/driver.ts'
import { caller } from '../kit/raw.ts'

export type OrdinarySetup = { ports: number[]; databaseUrl: string; tokens: string[]; thinkMs: number; crowd: string }

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

type Call = { kind: string; method: string; path: string; json?: object; isFine?: (status: number) => boolean }

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const { ports, databaseUrl, tokens, thinkMs, crowd } = JSON.parse((await lines.next()).value ?? '') as OrdinarySetup

/** As a balancer does, which takes a server for gone until it was healthy for a while. */
const AWAY_MS = 3_000

/** Microseconds of each call, by kind: to sort them all for a report took 50 ms, for which every client waited. */
const took = new Map<string, RecordableHistogram>()
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

async function client(number: number): Promise<void> {
  const line = caller()
  const token = tokens[number % tokens.length] ?? ''
  const from = `192.168.1.${1 + number}`
  const [home = 0, other = 0] = number % 2 === 0 ? ports : ports.toReversed()
  let awayUntil = 0

  /** Until it is answered with success, by its own server or, for a while after that has gone, by the other one. */
  const ask = async ({ kind, method, path, json, isFine }: Call): Promise<void> => {
    while (!isOver) {
      const began = performance.now()
      const isAway = began < awayUntil
      try {
        const { status, body } = await line.ask(isAway ? other : home, {
          method,
          path,
          token,
          from,
          ...(json && { body: JSON.stringify(json) }),
        })
        if (status < 300 || isFine?.(status)) {
          record(kind, performance.now() - began)
          return
        }
        count(status === 429 || status === 503 ? refused : failed, `${kind} ${status} ${body.slice(0, 80)}`)
      } catch {
        broken++
        awayUntil = isAway ? 0 : performance.now() + AWAY_MS
      }
      await sleep(100)
    }
  }

  await ask({
    kind: 'create',
    method: 'POST',
    path: '/api/collections/journal',
    json: { id: `${crowd}${number}`, n: 0 },
    isFine: (status) => status === 409,
  })
  for (let turn = 1; !isOver; turn++) {
    const id = `${crowd}${number}-${turn}`
    const work: [Call, (() => unknown)?][] = [
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
        { kind: 'update', method: 'PATCH', path: `/api/collections/journal/${crowd}${number}`, json: { n: turn } },
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
  line.end()
}

function record(kind: string, ms: number): void {
  if (!took.has(kind)) took.set(kind, createHistogram())
  took.get(kind)?.record(Math.max(1, Math.round(ms * 1000)))
}

function report(): Report {
  const all = createHistogram()
  for (const calls of took.values()) all.add(calls)
  const at = (calls: RecordableHistogram, percent: number) => calls.percentile(percent) / 1000
  const kinds = Object.fromEntries([...took].map(([kind, calls]) => [kind, at(calls, 99)]))
  const said = {
    count: all.count,
    p50: at(all, 50),
    p99: at(all, 99),
    p999: at(all, 99.9),
    kinds,
    refused,
    failed,
    broken,
  }
  took.clear()
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
  const stale = [...patched].filter(([number, n]) => (kept.get(`${crowd}${number}`) ?? -1) < n).length
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
