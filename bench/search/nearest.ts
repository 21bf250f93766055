import assert from 'node:assert/strict'
import { extensionsPostgres } from '../../scripts/tests/extensions-postgres.ts'
import type { Asked } from '../kit/raw.ts'
import { type SearchStage, startStage } from './stage.ts'
import { byHand, inTurns, overHttp } from './turns.ts'

const SECONDS = 3
const DIMENSIONS = 128
const FIELDS = 'id,kind,title'
const cache = new URL('../../.cache', import.meta.url).pathname
const { SVC_TEST_PG_BIN_EXT: binDir, SVC_TEST_EXT_REASON: reason } = extensionsPostgres(cache, console.log)

/** In a thousand neighbourhoods, as texts about the same things are. */
async function seed({ pool, user, build }: SearchStage): Promise<void> {
  await pool.query(`
    create extension vector;
    create table meanings (id int primary key, owner uuid not null, kind text, title text, meaning vector(${DIMENSIONS}));
    select setseed(0.5);
    insert into meanings
      select i, case when i % 100 = 0 then '${user.id}'::uuid else md5((i % 100)::text)::uuid end, 'kind ' || i % 12,
        'Article ' || i, (select array_agg(cos(i % 1000 * 131 + k * k) + random() * 2 - 1) from generate_series(1, ${DIMENSIONS}) k)::vector
      from generate_series(1, 100000) i;
    create table own_meanings (like meanings including all);
    insert into own_meanings select * from meanings;
    create index on own_meanings (owner);
    alter table own_meanings enable row level security;
    create policy own on own_meanings using (owner = svc.uid())`)
  const index = { column: 'meaning', method: 'hnsw', metric: 'cosine' }
  for (const table of ['meanings', 'own_meanings']) {
    await build('/api/admin/vector/indexes', { table, ...index })
    await pool.query(`vacuum analyze ${table}`)
  }
}

const noise = (n: number): number => (Math.sin(n * 12.9898) * 43758.5453) % 1
const vectors: string[] = Array.from({ length: 200 }, (_, i) => {
  const element = (k: number) => Math.cos(((i * 37) % 1000) * 131 + k * k) + noise(i * DIMENSIONS + k)
  return JSON.stringify(Array.from({ length: DIMENSIONS }, (_, k) => Number(element(k + 1).toFixed(6))))
})
const ask = (table: string, vector: string, token?: string): Asked => ({
  method: 'GET',
  path: `/api/collections/${table}?nearest=${encodeURIComponent(vector)}&fields=${FIELDS}`,
  ...(token && { token }),
})
const BY_HAND = `
  select json_agg(n)::text as answer from (
    select ${FIELDS}, meaning <=> $1 as "_distance" from meanings order by meaning <=> $1 limit 20) n`

if (!binDir) console.log(`nearest: ${reason}`)
else {
  console.log(`100,000 vectors of ${DIMENSIONS} numbers …`)
  const stage = await startStage(binDir)
  await seed(stage)
  for (const vector of vectors.slice(0, 5)) {
    const hand = JSON.parse((await stage.pool.query(BY_HAND, [vector])).rows[0].answer)
    const answer = await fetch(`http://127.0.0.1:${stage.server.port}${ask('meanings', vector).path}`)
    const { items } = (await answer.json()) as { items: unknown }
    assert.deepEqual(items, hand)
  }
  await inTurns(
    'the nearest twenty by HNSW',
    {
      'by hand': byHand(stage, BY_HAND, vectors),
      nearest: overHttp(
        stage,
        vectors.map((vector) => ask('meanings', vector)),
      ),
      'under a policy': overHttp(
        stage,
        vectors.map((vector) => ask('own_meanings', vector, stage.user.token)),
      ),
    },
    [
      ['nearest', 'by hand', 1.15],
      ['under a policy', 'nearest', 2],
    ],
    SECONDS,
  )
  await stage.stop()
}
