import pg from 'pg'
import { parseIntoClientConfig } from 'pg-connection-string'
import { asConnectionError } from '../pg-errors.ts'
import { feedWholeMessages, type Reception } from './whole-messages.ts'

export type ConnectOptions = {
  /** A connection string; `postgres://user@/db?host=/path` reaches a unix socket. */
  url: string
  /** Who logs in, if not the one the URL names. */
  login?: Login | undefined
  connectTimeoutMs?: number
  applicationName?: string
}

export type Login = { user: string; password?: string }

/** Opens one connection of its own, outside the pool. The caller ends it. */
export async function openConnection(options: ConnectOptions, reception?: Reception): Promise<pg.Client> {
  const client = new pg.Client({
    ...addressOf(options),
    application_name: options.applicationName ?? 'savanna',
    connectionTimeoutMillis: options.connectTimeoutMs ?? 5_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    // Values stay the text PostgreSQL sent; db/values.ts converts where an object is wanted.
    types: { getTypeParser: () => (value: string) => value },
  } as pg.ClientConfig)
  client.on('error', () => {}) // a lost connection is noticed by its queries and by `end`
  feedWholeMessages(client, reception)
  if (!reception) nameStatements(client)
  await client.connect().catch((error: Error) => {
    throw asConnectionError(error)
  })
  return client
}

/** A failure tells what was asked, as that of a flight does. */
function nameStatements(client: pg.Client): void {
  const query = client.query.bind(client) as (...asked: unknown[]) => unknown
  const named = (...asked: unknown[]): unknown => {
    const answer = query(...asked)
    if (!(answer instanceof Promise) || typeof asked[0] !== 'string') return answer
    return answer.catch((error: Error) => {
      throw Object.assign(asConnectionError(error), { statement: asked[0] })
    })
  }
  client.query = named as typeof client.query
}

/** As the driver reads a connection string, with another login in it. */
const addressOf = ({ url, login }: ConnectOptions): pg.ClientConfig =>
  login
    ? { ...parseIntoClientConfig(url), user: login.user, password: login.password ?? '' }
    : { connectionString: url }

/** Asks PostgreSQL to cancel what a backend is running; over a connection of its own, as the protocol demands. */
export async function cancelBackend(options: ConnectOptions, client: pg.Client): Promise<void> {
  const target = client as unknown as { processID: number; secretKey: number }
  const canceller = new pg.Client({ connectionString: options.url })
  canceller.on('error', () => {})
  const wire = (canceller as unknown as { connection: CancelWire }).connection
  const address = canceller as unknown as { host: string; port: number }
  await new Promise<void>((resolve) => {
    wire.on('error', () => resolve())
    wire.on('end', () => resolve())
    wire.on('connect', () => wire.cancel(target.processID, target.secretKey))
    if (address.host.startsWith('/')) wire.connect(`${address.host}/.s.PGSQL.${address.port}`)
    else wire.connect(address.port, address.host)
  })
}

type CancelWire = {
  on(event: string, heard: () => void): void
  connect(portOrPath: number | string, host?: string): void
  cancel(processId: number, secretKey: number): void
}
