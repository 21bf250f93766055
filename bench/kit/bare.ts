/**
 * The leanest handler one would write by hand: node:http, the same driver, four pipelined connections, one statement for
 * the identity of the token and one for the data, no routes, no checks, no log. It sets the mark for the real server.
 */
import { createServer } from 'node:http'
import pg from 'pg'
import type { BenchUser } from './database.ts'

type Step = { name: string; text: string; values: readonly (string | null)[] }

const DriverQuery = pg.Query as unknown as new (config: { text: string }) => object
type Wire = {
  stream: { cork(): void; uncork(): void }
  parse(message: object): void
  bind(message: object): void
  execute(message: object): void
  sync(): void
}
const prepared = new WeakMap<Wire, Set<string>>()

class BareFlight extends DriverQuery {
  readonly #steps: readonly Step[]
  readonly #done: (error: Error | null, text: string) => void
  #text = ''
  constructor(steps: readonly Step[], done: (error: Error | null, text: string) => void) {
    super({ text: '' })
    this.#steps = steps
    this.#done = done
  }
  submit(wire: Wire): null {
    const known = prepared.get(wire) ?? new Set()
    prepared.set(wire, known)
    wire.stream.cork()
    for (const { name, text, values } of this.#steps) {
      if (!known.has(name)) {
        wire.parse({ name, text, types: [] })
        known.add(name)
      }
      wire.bind({ portal: '', statement: name, values })
      wire.execute({ portal: '', rows: 0 })
    }
    wire.sync()
    wire.stream.uncork()
    return null
  }
  handleRowDescription(): void {}
  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    this.#text = fields[0] ?? ''
  }
  handleCommandComplete(): void {}
  handleError(error: Error): void {
    this.#done(error, '')
  }
  handleReadyForQuery(): void {
    this.#done(null, this.#text)
  }
}

// As a process of its own: the setup as JSON on standard input, the port on standard output.
let input = ''
for await (const chunk of process.stdin) input += chunk
const { url, users } = JSON.parse(input) as { url: string; users: readonly BenchUser[] }

const clients = await Promise.all(
  Array.from({ length: 4 }, async () => {
    const client = new pg.Client({ connectionString: url, pipeline: true } as pg.ClientConfig)
    await client.connect()
    return client
  }),
)
const busy = clients.map(() => 0)

function fly(...steps: Step[]): Promise<string> {
  const least = busy.indexOf(Math.min(...busy))
  busy[least] = (busy[least] ?? 0) + 1
  return new Promise((resolve, reject) => {
    const flight = new BareFlight(steps, (error, text) => {
      busy[least] = (busy[least] ?? 1) - 1
      if (error) reject(error)
      else resolve(text)
    })
    clients[least]?.query(flight as unknown as pg.Submittable)
  })
}

const identify = `select set_config('role', $1, true), set_config('svc.user_id', $2, true)`
/** Tokens as a hand-written server would keep them once they are verified. */
const sessions = new Map(users.map(({ id, token }) => [`Bearer ${token}`, id]))
const identity = (userId: string): Step => ({
  name: 'identity',
  text: identify,
  values: ['svc_authenticated', userId],
})

const LIST = 'where p.title >= $1 order by p.id desc limit 20'
const texts = {
  read: 'select to_json(p)::text from public.posts p where p.id = $1',
  list: `select json_agg(to_json(p))::text from (select * from public.posts p ${LIST}) p`,
  own: `select json_agg(to_json(p))::text from (select * from public.notes p ${LIST}) p`,
  expanded: `select json_build_object('total', (select count(*) from public.notes p where p.title >= $1), 'items', json_agg(
    (select to_json(j) from (select p.*, (select to_json(r) from public.projects r where r.id = p.project_id) as project) j)))::text
    from (select * from public.notes p ${LIST}) p`,
  create:
    'insert into public.pairs (label, n) select r.label, r.n from json_to_record($1) as r(label text, n int) returning to_json(pairs)::text',
  call: 'select to_json(public.add(r.a, r.b))::text from json_to_record($1) as r(a int, b int)',
  callAnew: 'select to_json(public.add_anew(r.a, r.b))::text from json_to_record($1) as r(a int, b int)',
}
const step = (name: keyof typeof texts, value: string): Step => ({ name, text: texts[name], values: [value] })

const pool = new pg.Pool({ connectionString: url, max: 4 })
type Operation = { body: Record<string, string | number> }

/** As drivers make one do it: a value for each column of each row, and JSON made of the rows that come back. */
async function insertAll(userId: string, body: string): Promise<string> {
  const rows = (JSON.parse(body) as { operations: Operation[] }).operations.map((operation) => operation.body)
  const names = Object.keys(rows[0] ?? {})
  const places = rows.map((_, i) => `(${names.map((_, k) => `$${i * names.length + k + 1}`).join(', ')})`)
  const text = `insert into public.imports (${names.join(', ')}) values ${places.join(', ')} returning *`
  const client = await pool.connect()
  try {
    await client.query('begin')
    await client.query(identity(userId) as pg.QueryConfig)
    const made = await client.query({ name: 'batch', text, values: rows.flatMap((row) => Object.values(row)) })
    await client.query('commit')
    return JSON.stringify(made.rows)
  } finally {
    client.release()
  }
}

type Handler = (userId: string, given: string) => string | Promise<string>
const flying =
  (name: keyof typeof texts): Handler =>
  (userId, given) =>
    fly(identity(userId), step(name, given))

const handlers: Readonly<Record<string, Handler>> = {
  '/health': () => '{"status":"ok","database":"ok"}',
  '/read': flying('read'),
  '/list': flying('list'),
  '/own': flying('own'),
  '/expanded': flying('expanded'),
  '/create': flying('create'),
  '/call': flying('call'),
  '/call-anew': flying('callAnew'),
  '/batch': insertAll,
}

const server = createServer((request, response) => {
  const answer = (text: string): void => {
    response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) })
    response.end(text)
  }
  const [path = '', value = ''] = (request.url ?? '').split('?')
  const work = async (given: string): Promise<void> => {
    try {
      const userId = sessions.get(request.headers.authorization ?? '')
      if (userId === undefined && path !== '/health') throw new Error('no such token')
      const text = handlers[path]?.(userId ?? '', given) ?? ''
      answer(typeof text === 'string' ? text : await text)
    } catch (error) {
      response.writeHead(500)
      response.end(String(error))
    }
  }
  if (request.method === 'GET') return void work(value)
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk)).on('end', () => void work(Buffer.concat(chunks).toString()))
})
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as { port: number }
  process.stdout.write(`${port}\n`)
})
