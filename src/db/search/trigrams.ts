import { badRequest } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../db.ts'
import type { SchemaCache } from '../schema/snapshot.ts'
import { sql } from '../sql.ts'

/** pg_trgm comes with PostgreSQL and is installed in the database on first use. */
export class Trigrams {
  readonly #db: Db
  readonly #schema: SchemaCache
  #installing: Promise<void> | undefined

  constructor({ db, schema }: { db: Db; schema: SchemaCache }) {
    this.#db = db
    this.#schema = schema
  }

  async ensureInstalled(): Promise<void> {
    if (this.#schema.read().pgTrgm) return
    this.#installing ??= this.#install().finally(() => {
      this.#installing = undefined
    })
    await this.#installing
  }

  async #install(): Promise<void> {
    await this.#db.run(SYSTEM, sql`create extension if not exists pg_trgm with schema public`).catch(() => {})
    // Check the result instead of the error: another process may have installed it.
    const { pgTrgm } = await this.#schema.reload()
    if (!pgTrgm) throw badRequest('fuzzy search is unavailable because pg_trgm is not installed', 'extension_missing')
  }
}
