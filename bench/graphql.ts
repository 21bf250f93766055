/**
 * npm run bench graphql [-- --quick]
 * Three levels of 20 × 10 × 10 rows through the built server, against the same answer written by hand in SQL, in turns.
 * PostgreSQL itself tells how many statements a request was. Then what keeps others waiting: hostile documents, and the
 * schema of a thousand tables.
 */
import { Agent, request } from 'node:http'
import { getIntrospectionQuery } from 'graphql'
import pg from 'pg'
import { HOSTILE_DOCUMENTS } from '../test/abuse/hostile-documents.ts'
import { startPostgres } from './kit/postgres.ts'
import { processorMs, type Stage, startBuilt, startNeighbour } from './kit/processes.ts'
import { median } from './kit/report.ts'

const isQuick = process.argv.includes('--quick')
const ROUNDS = isQuick ? 10 : 30
const PER_ROUND = 20
const RATIO_BAR = 1.5
const WAIT_BAR_MS = 50
const TABLES = 1_000
const COLUMNS = 20

const settings = { shared_preload_libraries: 'pg_stat_statements', max_locks_per_transaction: '1024' }
const cluster = await startPostgres({ settings })
const client = new pg.Client({ connectionString: cluster.url })
await client.connect()
await client.query(`
  create extension pg_stat_statements;
  create table authors (id int primary key, name text);
  create table posts (id int primary key, author_id int references authors, title text);
  create table comments (id int primary key, post_id int references posts, body text);
  insert into authors select n, 'author ' || n from generate_series(1, 20) n;
  insert into posts select n, (n - 1) / 10 + 1, 'post ' || n from generate_series(1, 200) n;
  insert into comments select n, (n - 1) / 10 + 1, 'comment ' || n from generate_series(1, 2000) n;
  create index on posts (author_id, id); create index on comments (post_id, id); analyze`)
const server = await startBuilt(cluster.url)

const agent = new Agent({ keepAlive: true })
function ask({ port }: Stage, document: object): Promise<string> {
  const body = Buffer.from(JSON.stringify(document))
  const headers = { 'content-type': 'application/json', 'content-length': body.length }
  return new Promise((resolve, reject) => {
    request({ host: '127.0.0.1', port, path: '/api/graphql', method: 'POST', headers, agent }, (answer) => {
      const chunks: Buffer[] = []
      answer.on('data', (chunk: Buffer) => chunks.push(chunk))
      answer.on('end', () => resolve(Buffer.concat(chunks).toString()))
    })
      .on('error', reject)
      .end(body)
  })
}

const verdict = (value: number, bar: number): string => `bar ${bar}: ${value <= bar ? 'ok' : 'above'}`

async function compareWithSql(): Promise<void> {
  const document = { query: '{ authors { id name posts { id title comments { id body } } } }' }
  // The limits are what the server promises; as parameters they make PostgreSQL choose the better plan of the two.
  const bySql = {
    name: 'by hand',
    text: `select json_agg(a)::text as text from (select a.id, a.name, (select json_agg(p) from (
        select p.id, p.title, (select json_agg(c) from (
          select c.id, c.body from comments c where c.post_id = p.id order by c.id limit $1::int8) c) as comments
        from posts p where p.author_id = a.id order by p.id limit $1::int8) p) as posts
      from authors a order by a.id limit $1::int8) a`,
    values: [1000],
  }
  const byHand = async (): Promise<string> => (await client.query(bySql)).rows[0].text
  const answer = JSON.parse(await ask(server, document)).data.authors
  if (JSON.stringify(answer) !== JSON.stringify(JSON.parse(await byHand()))) throw new Error('the two answers differ')
  const timed = async (work: () => Promise<unknown>): Promise<number> => {
    const times: number[] = []
    for (let i = 0; i < PER_ROUND; i++) {
      const began = performance.now()
      await work()
      times.push(performance.now() - began)
    }
    return median(times)
  }
  for (let i = 0; i < 5; i++) await Promise.all([timed(() => ask(server, document)), timed(byHand)])
  await client.query('select pg_stat_statements_reset()')
  const [ours, theirs]: [number[], number[]] = [[], []]
  const before = processorMs(server.pid)
  for (let i = 0; i < ROUNDS; i++) {
    ours.push(await timed(() => ask(server, document)))
    theirs.push(await timed(byHand))
  }
  const nodeMs = (processorMs(server.pid) - before) / (ROUNDS * PER_ROUND)
  const { rows } = await client.query(
    `select sum(calls)::int as calls from pg_stat_statements where query ilike '%comments%' and query not ilike '%) c) as comments%'`,
  )
  const ratio = median(ours.map((ms, i) => ms / (theirs[i] ?? Number.NaN)))
  console.log(`three levels, 2,220 rows: ${median(ours).toFixed(2)} ms, by hand ${median(theirs).toFixed(2)} ms`)
  console.log(`ratio ${ratio.toFixed(2)}, ${verdict(ratio, RATIO_BAR)}; node ${nodeMs.toFixed(2)} ms per request`)
  console.log(`statements per request: ${(Number(rows[0].calls) / (ROUNDS * PER_ROUND)).toFixed(2)}`)
}

/** What it still waited for when the last work ended is not counted for the next. */
async function settled(neighbour: { longestWait: () => Promise<number> }): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 50))
  await neighbour.longestWait()
}

async function tryHostileDocuments(): Promise<void> {
  console.log('\nhostile documents: how long somebody else waited at most, and how long the refusal took')
  const neighbour = startNeighbour(server.port)
  await neighbour.longestWait()
  for (const [name, document] of Object.entries(HOSTILE_DOCUMENTS)) {
    // The first of a kind is read by code that was never used before.
    await ask(server, document)
    await settled(neighbour)
    const times: number[] = []
    for (let i = 0; i < 5; i++) {
      const began = performance.now()
      const answer = JSON.parse(await ask(server, document))
      times.push(performance.now() - began)
      if (!answer.errors?.length) throw new Error(`${name}: not refused`)
    }
    const wait = await neighbour.longestWait()
    console.log(
      `  ${name.padEnd(48)} ${wait.toFixed(0).padStart(4)} ms (${verdict(wait, WAIT_BAR_MS)}), ${median(times).toFixed(0)} ms`,
    )
  }
  neighbour.stop()
}

async function describeManyTables(): Promise<void> {
  console.log(`\n${TABLES} tables of ${COLUMNS} columns: how long somebody else waited at most`)
  const columns = Array.from({ length: COLUMNS - 2 }, (_, i) => `column_${i} ${i % 2 ? 'text' : 'int'}`).join(', ')
  await client.query(
    Array.from({ length: TABLES }, (_, i) => {
      const parent = i === 0 ? 0 : Math.floor((i - 1) / 10)
      return `create table thing_${i} (id int primary key, parent_id int references thing_${parent}, ${columns});`
    }).join('\n'),
  )
  const many = await startBuilt(cluster.url)
  const neighbour = startNeighbour(many.port)
  await neighbour.longestWait()
  const step = async (name: string, work: () => Promise<string | undefined>): Promise<void> => {
    await settled(neighbour)
    const began = performance.now()
    const said = await work()
    const took = performance.now() - began
    const wait = await neighbour.longestWait()
    console.log(
      `  ${name.padEnd(48)} ${wait.toFixed(0).padStart(4)} ms (${verdict(wait, WAIT_BAR_MS)}), took ${took.toFixed(0)} ms ${said ?? ''}`,
    )
  }
  const introspection = { query: getIntrospectionQuery() }
  const described = async () => `(${((await ask(many, introspection)).length / 2 ** 20).toFixed(1)} MB)`
  const first = { query: '{ thing_5 { id thing_51 { id column_3 } } }' }
  await step('the first document', async () => void (await ask(many, first)))
  await step('the first introspection', described)
  await step('the next introspection', described)
  await step('a table is made, until a document sees it', async () => {
    await client.query('create table thing_new (id int primary key)')
    while (JSON.parse(await ask(many, { query: '{ thing_new { id } }' })).errors);
    return undefined
  })
  await step('the introspection after that', described)
  neighbour.stop()
  await many.stop()
}

await compareWithSql()
await tryHostileDocuments()
await server.stop()
if (!isQuick) await describeManyTables()
await client.end()
await cluster.stop()
