import type pg from 'pg'
import { Ident } from '../sql.ts'
import { type CallerTrial, type TriedScript, tryScript } from './dry-script.ts'
import { execute, type ScriptResult } from './execute.ts'
import { reading, readStatements } from './read-only.ts'
import { readScript } from './read-script.ts'
import { type WrittenResult, withJson } from './written-result.ts'

export type ScriptSettings = {
  timeoutMs: number
  /** The search path, in lookup order. */
  schemas: readonly string[]
}

const SETTINGS = `select pg_catalog.set_config('statement_timeout', $1, false), pg_catalog.set_config('client_min_messages', 'error', false), pg_catalog.set_config('search_path', $2, false)`

/** A connection for SQL that an administrator wrote. It is not reused, so its session settings end with it. */
export class Script {
  readonly #client: pg.Client
  readonly #reader: string | undefined
  readonly #caller: CallerTrial | undefined

  /** `reader`: the login of one who only reads. `caller`: of a connection of callers. */
  constructor(client: pg.Client, { reader, caller }: { reader?: string; caller?: CallerTrial } = {}) {
    this.#client = client
    this.#reader = reader
    this.#caller = caller
  }

  /** The pid of its PostgreSQL process. */
  get backend(): number {
    return (this.#client as unknown as { processID: number }).processID
  }

  async set({ timeoutMs, schemas }: ScriptSettings): Promise<void> {
    const searchPath = schemas.map((name) => new Ident(name).quoted).join(', ')
    await this.#client.query(SETTINGS, [String(timeoutMs), searchPath])
    if (this.#reader === undefined) return
    const { rows } = await this.#client.query<{ user: string }>('select session_user as user')
    if (rows[0]?.user !== this.#reader) throw new Error(`${this.#reader} arrives in the database as ${rows[0]?.user}`)
  }

  execute(text: string, keepsAll: boolean): Promise<ScriptResult[]> {
    return this.#reader === undefined
      ? execute(this.#client, text, keepsAll)
      : readStatements(this.#client, text, keepsAll)
  }

  /** In a transaction that only reads. */
  read(text: string, keepsAll: boolean): Promise<ScriptResult[]> {
    return this.#reader === undefined ? readScript(this.#client, text, keepsAll) : this.execute(text, keepsAll)
  }

  /** Runs the text and rolls it back. */
  async tryOut(text: string, keepsAll: boolean): Promise<TriedScript> {
    if (this.#reader === undefined) return tryScript(this.#client, text, keepsAll, this.#caller)
    return { results: await this.withJson(await this.execute(text, keepsAll)), told: '"changes":[]' }
  }

  withJson(results: readonly ScriptResult[]): Promise<WrittenResult[]> {
    const convert = (): Promise<WrittenResult[]> => withJson(this.#client, results)
    // Types may have code of their own.
    return this.#reader === undefined ? convert() : reading(this.#client, convert)
  }

  end(): Promise<void> {
    return this.#client.end()
  }
}
