import { AppError, databaseUnavailable, reasonOf } from '../../../core/errors.ts'
import { type Identity, SYSTEM } from '../../../core/identity.ts'
import { Semaphore } from '../../../core/limits.ts'
import type { LogEntry, Observe } from '../../../core/observe.ts'
import type { Db } from '../../../db/db.ts'
import { databaseMessage, isConnectionLost } from '../../../db/pg-errors.ts'
import type { Pool } from '../../../db/pool/pool.ts'
import type { ScriptResult } from '../../../db/script/execute.ts'
import { previewMigration } from '../../../db/script/preview.ts'
import { runReadOnly } from '../../../db/script/single-query.ts'
import { closeReader, openReader } from '../../../db/setup/agent-logins.ts'
import { sql } from '../../../db/sql.ts'
import { answerOf, refusalOf } from '../answers.ts'
import type { McpServer, Tool, ToolResult } from '../protocol.ts'

export type OperatorDeps = {
  db: Db & Pick<Pool, 'openConnection'>
  schemas: readonly string[]
  /** The advisor's items. */
  advise: () => Promise<readonly unknown[]>
  logs: () => Promise<LogEntry[]>
  observe: Observe
  appName: string
  version: string
}

type Client = Awaited<ReturnType<Pool['openConnection']>>
type Fields = Readonly<Record<string, unknown>>

const CALL_MS = 5_000
const MOST_ROWS = 200
const LOCK = `select pg_catalog.pg_advisory_lock(pg_catalog.hashtext('svc.reader'))`

const query = { type: 'string', description: 'one statement' }
const TOOLS: readonly Tool[] = [
  tool('sql', 'One query that reads; nothing is written. At most 200 rows.', { query }, ['query']),
  tool('explain', 'The plan of a query, without running it.', { query }, ['query']),
  tool('advise', 'What would make this database faster or safer, with SQL to apply.', {}, []),
  tool(
    'migration_preview',
    'Runs DDL and rolls it back: which locks it takes and which rows it rewrites.',
    { sql: { type: 'string', description: 'statements of a migration' } },
    ['sql'],
  ),
  tool('logs', 'The latest log entries.', {}, []),
]

function tool(name: string, description: string, properties: object, required: readonly string[]): Tool {
  const inputSchema = { type: 'object', properties, required, additionalProperties: false }
  return { name, description, inputSchema, annotations: { readOnlyHint: true } }
}

/** The operator's own tools. None of them changes anything. */
export class OperatorTools {
  readonly #deps: OperatorDeps
  readonly #atOnce = new Semaphore(2)

  constructor(deps: OperatorDeps) {
    this.#deps = deps
  }

  /** For one request. `called` is told which tool it was. */
  server(called: (name: string, args: Fields) => void): McpServer {
    const { appName, version } = this.#deps
    return {
      name: `${appName} operator`,
      version,
      instructions: 'Tools for the operator of this database. They read and try; none of them changes anything.',
      tools: (_who: Identity) => TOOLS,
      call: async (name, args) => {
        const known = TOOLS.find((one) => one.name === name)
        if (!known) return undefined
        called(name, args)
        try {
          const properties = known.inputSchema as { properties: object; required: readonly string[] }
          checkArgs(properties, args)
          return await this.#run(name, args)
        } catch (error) {
          const refusal = refusalFor(error)
          if (!(refusal instanceof AppError) || (refusal.status >= 500 && refusal.status !== 504)) throw refusal
          return refusalOf(refusal)
        }
      },
    }
  }

  async #run(name: string, args: Fields): Promise<ToolResult> {
    switch (name) {
      case 'sql':
        return rowsAnswer(await this.#read(String(args['query']), ''))
      case 'explain': {
        const { rows = [] } = await this.#read(String(args['query']), 'explain (format json) ')
        return answerOf({ content: { plan: JSON.parse(rows[0]?.[0] ?? '[]') } })
      }
      case 'advise':
        return answerOf({ content: { items: await this.#deps.advise() }, list: 'items' })
      case 'migration_preview': {
        const preview = await this.#alone((server) => this.#preview(server, String(args['sql'])))
        return answerOf({ content: preview, list: 'statements' })
      }
      default: {
        const entries = (await this.#deps.logs()).slice(-MOST_ROWS).reverse()
        return answerOf({ content: { entries }, list: 'entries', others: ['the entries'] })
      }
    }
  }

  /** On the server's own connection, for at most five seconds. */
  #alone<T>(work: (server: Client) => Promise<T>): Promise<T> {
    return this.#atOnce.run(
      async () => {
        const server = await this.#deps.db.openConnection()
        const timer = setTimeout(() => this.#stop(server), CALL_MS)
        try {
          return await work(server)
        } finally {
          clearTimeout(timer)
          await server.end().catch(() => {})
        }
      },
      { timeoutMs: CALL_MS },
    )
  }

  async #preview(server: Client, script: string) {
    const watcher = await this.#deps.db.openConnection()
    try {
      return await previewMigration(server, watcher, script, this.#deps.schemas)
    } finally {
      await watcher.end().catch(() => {})
    }
  }

  #read(text: string, prefix: string): Promise<ScriptResult> {
    return this.#alone(async (server) => {
      // One at a time in a database: the login is theirs alone.
      await server.query(LOCK)
      const login = await openReader(server)
      if (!login) throw new AppError('not_implemented', 'this needs a server that may make roles in its database')
      try {
        const client = await this.#deps.db.openConnection(login)
        const timer = setTimeout(() => this.#stop(client), CALL_MS - 500)
        try {
          await client.query(`set statement_timeout = '4s'; set lock_timeout = '2s'`)
          return await runReadOnly(client, text, prefix)
        } finally {
          clearTimeout(timer)
          await client.end().catch(() => {})
        }
      } finally {
        await closeReader(server, login).catch((error: unknown) =>
          this.#deps.observe({ message: 'the login of the operator stays open', attrs: { error: reasonOf(error) } }),
        )
      }
    })
  }

  #stop(client: Client): void {
    const { processID } = client as unknown as { processID: number }
    const end = sql`select pg_catalog.pg_terminate_backend(${processID}::int)`
    this.#deps.db.run(SYSTEM, end).catch((error: unknown) => {
      this.#deps.observe({ message: 'admin SQL could not be stopped', attrs: { error: reasonOf(error) } })
    })
  }
}

function checkArgs({ properties, required }: { properties: object; required: readonly string[] }, args: Fields): void {
  const strange = Object.keys(args).find((name) => !Object.hasOwn(properties, name))
  if (strange !== undefined) throw new AppError('invalid_arguments', `unknown argument: ${strange.slice(0, 100)}`)
  const missing = required.find((name) => typeof args[name] !== 'string' || args[name] === '')
  if (missing !== undefined) throw new AppError('invalid_arguments', `${missing} is required`)
}

function rowsAnswer({ fields, rows = [], isCut }: ScriptResult): ToolResult {
  const shown = rows.slice(0, MOST_ROWS)
  const content = {
    columns: fields.map(({ name }) => name),
    rows: shown,
    ...((isCut || rows.length > shown.length) && { truncated: true }),
  }
  return answerOf({ content, list: 'rows', others: content.columns })
}

/** The operator wrote the statement, so PostgreSQL's own words are shown. */
function refusalFor(error: unknown): unknown {
  if (error instanceof AppError) return error
  if ((error as { code?: string }).code === '57P01')
    return new AppError('timeout', 'the call took longer than 5 seconds')
  if (isConnectionLost(error)) return databaseUnavailable(error)
  const message = databaseMessage(error)
  return message === undefined ? error : new AppError('sql_error', message, { cause: error })
}
