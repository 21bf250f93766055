import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { inParallel } from '../../src/core/limits.ts'
import { type SpawnedServer, spawnServer, startServer, type TestServer } from '../kit/kit.ts'
import { ROUNDS } from './rounds.ts'

const WRITES = 300 * ROUNDS

test(`${WRITES} writes with keys, while one of two processes is killed again and again: each once`, async () => {
  const api = await startServer()
  await api.sql(`create table public.notes (id int generated always as identity primary key, title text not null);
    create function public.note(title text) returns int language sql
      as 'insert into notes (title) values (note.title) returning id'`)
  await api.stop()
  const servers: SpawnedServer[] = [await spawnServer({ on: api }), await spawnServer({ on: api })]

  /** As a client does: with the same key, to any process, until there is an answer. */
  const send = async (line: Parameters<TestServer['call']>[0], json: unknown) => {
    const headers = { 'idempotency-key': randomUUID() }
    for (let tries = 0; tries < 2000; tries++) {
      const server = servers[(tries + Number(headers['idempotency-key'].charCodeAt(0))) % 2]
      const signal = AbortSignal.timeout(20_000)
      const answer = await server?.call(line, { json, headers, signal }).catch(() => undefined)
      if (answer && answer.status < 300) return { text: answer.text, isAgain: tries > 0 }
      assert.ok(!answer || answer.status >= 500 || answer.body.error === 'in_progress', answer?.text)
      await sleep(20)
    }
    throw new Error('never answered')
  }

  let [done, again, kills] = [0, 0, 0]
  const killing = (async () => {
    for (let victim = 0; done < WRITES; victim = 1 - victim) {
      const before = done
      while (done < Math.min(WRITES, before + 20)) await sleep(5)
      if (done >= WRITES) return
      await servers[victim]?.kill()
      kills++
      servers[victim] = await spawnServer({ on: api })
    }
  })()
  await inParallel([...Array(WRITES).keys()], 16, async (n) => {
    const title = `note ${n}`
    const { isAgain } = await (n % 3 === 0
      ? send('POST /api/rpc/note', { title })
      : n % 3 === 1
        ? send('POST /api/collections/notes', { title })
        : send('POST /api/collections/notes/batch', { operations: [{ method: 'create', body: { title } }] }))
    done++
    if (isAgain) again++
  })
  await killing
  const [{ rows, titles }] = await api.sql('select count(*) as rows, count(distinct title) as titles from public.notes')
  assert.deepEqual([Number(rows), Number(titles)], [WRITES, WRITES])
  assert.ok(kills > 0)
  console.log(`${kills} kills, ${again} of ${WRITES} writes were sent again`)
  for (const server of servers) await server.stop()
})
