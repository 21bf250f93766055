import { createServer } from 'node:http'
import pg from 'pg'

/**
 * What a server without any features would do: node:http, the same driver, the same statements. It sets the mark
 * that the real one is measured against. Statements come as JSON on standard input.
 */
type Step = { text: string; values: (string | null)[] }
type Setup = {
  url: string
  connections: number
  /**
   * By path: `flight` sends all steps with one Sync; `classic` awaits BEGIN, each step and COMMIT one by one; `insert`
   * sends the last step alone, with the rows of the request's body if it has one, and makes JSON of the rows it gets.
   */
  paths: Record<string, { mode: 'hello' | 'flight' | 'classic' | 'insert'; steps: Step[] }>
}

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
  readonly #steps: readonly (Step & { name: string })[]
  readonly #done: (error: Error | null, text: string) => void
  #text = ''
  constructor(steps: readonly (Step & { name: string })[], done: (error: Error | null, text: string) => void) {
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

let input = ''
for await (const chunk of process.stdin) input += chunk
const { url, connections, paths } = JSON.parse(input) as Setup

const clients = await Promise.all(
  Array.from({ length: connections }, async () => {
    const client = new pg.Client({ connectionString: url, pipeline: true } as pg.ClientConfig)
    await client.connect()
    return client
  }),
)
const busy = clients.map(() => 0)
const pool = new pg.Pool({ connectionString: url, max: connections })

function fly(steps: readonly (Step & { name: string })[]): Promise<string> {
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

async function classic(steps: readonly (Step & { name: string })[]): Promise<string> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    let text = ''
    for (const step of steps) {
      const { rows } = await client.query({ ...step, rowMode: 'array' })
      text = String(rows[0]?.[0] ?? '')
    }
    await client.query('commit')
    return text
  } finally {
    client.release()
  }
}

type Operation = { body: Record<string, string | number> }

async function insert(steps: readonly (Step & { name: string })[], body: string): Promise<string> {
  const step = steps.at(-1) as Step & { name: string }
  const sent = body === '' ? [] : (JSON.parse(body) as { operations: Operation[] }).operations
  const values = body === '' ? step.values : sent.flatMap((operation) => Object.values(operation.body))
  return JSON.stringify((await pool.query({ ...step, values })).rows)
}

const ways = { flight: fly, classic, insert }

const plans = new Map(
  Object.entries(paths).map(([path, { mode, steps }]) => [
    path,
    { mode, steps: steps.map((step, i) => ({ ...step, name: `${path.slice(1)}_${i}` })) },
  ]),
)
const server = createServer((request, response) => {
  const plan = plans.get(request.url ?? '')
  const answer = (text: string) => {
    response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) })
    response.end(text)
  }
  if (!plan || plan.mode === 'hello') return answer('{"status":"ok","database":"ok"}')
  const chunks: Buffer[] = []
  const way = ways[plan.mode]
  const work = (): void => {
    way(plan.steps, Buffer.concat(chunks).toString()).then(answer, (error: Error) => {
      response.writeHead(500)
      response.end(error.message)
    })
  }
  if (request.method === 'GET') return work()
  request.on('data', (chunk: Buffer) => chunks.push(chunk)).on('end', work)
})
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as { port: number }
  process.stdout.write(`${port}\n`)
})
