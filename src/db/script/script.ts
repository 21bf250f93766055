import type pg from 'pg'
import { Ident } from '../sql.ts'
import { type TriedScript, tryScript } from './dry-script.ts'
import { execute, type ScriptResult } from './execute.ts'
import { readScript } from './read-script.ts'
import { type WrittenResult, withJson } from './written-result.ts'

export type ScriptSettings = {
  timeoutMs: number
  /** The search path, in lookup order. */
  schemas: readonly string[]
}

const SETTINGS = `select pg_catalog.set_config('statement_timeout', $1, false),
  pg_catalog.set_config('TimeZone', 'UTC', false), pg_catalog.set_config('DateStyle', 'ISO, MDY', false),
  pg_catalog.set_config('bytea_output', 'hex', false), pg_catalog.set_config('extra_float_digits', '1', false),
  pg_catalog.set_config('client_min_messages', 'error', false), pg_catalog.set_config('search_path', $2, false)`

/** A connection for SQL that the operator wrote. It is not reused, so its session settings end with it. */
export class Script {
  readonly #client: pg.Client

  constructor(client: pg.Client) {
    this.#client = client
  }

  /** The pid of its PostgreSQL process. */
  get backend(): number {
    return (this.#client as unknown as { processID: number }).processID
  }

  async set({ timeoutMs, schemas }: ScriptSettings): Promise<void> {
    const searchPath = schemas.map((name) => new Ident(name).quoted).join(', ')
    await this.#client.query(SETTINGS, [String(timeoutMs), searchPath])
  }

  execute(text: string, keepsAll: boolean): Promise<ScriptResult[]> {
    return execute(this.#client, text, keepsAll)
  }

  /** In a transaction that only reads. */
  read(text: string, keepsAll: boolean): Promise<ScriptResult[]> {
    return readScript(this.#client, text, keepsAll)
  }

  /** Runs the text and rolls it back. */
  tryOut(text: string, keepsAll: boolean): Promise<TriedScript> {
    return tryScript(this.#client, text, keepsAll)
  }

  withJson(results: readonly ScriptResult[]): Promise<WrittenResult[]> {
    return withJson(this.#client, results)
  }

  end(): Promise<void> {
    return this.#client.end()
  }
}
