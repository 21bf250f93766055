/**
 * npm run bench churn
 * DDL on a database of 1,000 tables with 50 columns: how long the event loop of a server stands still meanwhile, what
 * /api/schema costs, and how soon a new table is there.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { startApp } from '../../src/app.ts'
import { loadConfig } from '../../src/config/config.ts'
import { openConnection } from '../../src/db/protocol/driver.ts'
import { startPostgres } from '../kit/postgres.ts'

const TABLES = 1000
const COLUMNS = 50
const ROUNDS = 8
const MAX_BLOCK_MS = 100
const MAX_VISIBLE_MS = 2000

const cluster = await startPostgres({ settings: { max_locks_per_transaction: '4096' } })
const db = await openConnection({ url: cluster.url })
const columns = Array.from({ length: COLUMNS - 1 }, (_, i) => `c${i} ${['text', 'int', 'timestamptz'][i % 3]}`).join(
  ', ',
)
await db.query(`
  do $$ begin for i in 1..${TABLES} loop
    execute format('create table public.t%s (id int primary key, ${columns})', i);
  end loop; end $$`)

const overrides = { 'database.url': cluster.url, 'server.port': 0, 'admin.password': 'bench', 'log.level': 'error' }
const began = performance.now()
const app = await startApp(loadConfig({ overrides }).config, { observe: () => {} })
console.log(`start             ${(performance.now() - began).toFixed(0)} ms`)

/** The longest time for which nothing else could run in this process, in milliseconds. */
async function blocked(work: () => Promise<unknown>): Promise<number> {
  const delay = monitorEventLoopDelay({ resolution: 5 })
  await sleep(200)
  delay.enable()
  await work()
  await sleep(200)
  delay.disable()
  return delay.max / 1e6
}

const verdict = (isOk: boolean) => (isOk ? 'ok' : 'ABOVE')
const worst = { block: 0, visible: 0 }
for (let round = 0; round < ROUNDS; round++) {
  let visible = 0
  const block = await blocked(async () => {
    const from = performance.now()
    await db.query(`create table public.fresh${round} (id int primary key)`)
    await db.query(`alter table public.t${1 + round} add column extra int`)
    for (;;) {
      const { status } = await fetch(`${app.url}/api/collections/fresh${round}`)
      if (status === 200) break
      await sleep(5)
    }
    visible = performance.now() - from
    await sleep(1500)
  })
  worst.block = Math.max(worst.block, block)
  worst.visible = Math.max(worst.visible, visible)
}
console.log(
  `DDL               the event loop stood still for ${worst.block.toFixed(0)} ms at most (bar ${MAX_BLOCK_MS}) ${verdict(worst.block <= MAX_BLOCK_MS)}`,
)
console.log(
  `a new table       is there after ${worst.visible.toFixed(0)} ms at most (bar ${MAX_VISIBLE_MS}) ${verdict(worst.visible <= MAX_VISIBLE_MS)}`,
)

let tag = ''
for (const name of ['first', 'second', 'unchanged']) {
  let told = ''
  const block = await blocked(async () => {
    const from = performance.now()
    const answer = await fetch(`${app.url}/api/schema`, {
      headers: name === 'unchanged' ? { 'if-none-match': tag } : {},
    })
    const { byteLength } = await answer.arrayBuffer()
    tag = answer.headers.get('etag') ?? ''
    told = `${answer.status}, ${(byteLength / 2 ** 20).toFixed(1)} MB in ${(performance.now() - from).toFixed(0)} ms`
  })
  console.log(
    `schema ${name.padEnd(10)} ${told}, the event loop stood still for ${block.toFixed(0)} ms ${verdict(block <= MAX_BLOCK_MS)}`,
  )
}

await app.close()
await db.end()
await cluster.stop()
