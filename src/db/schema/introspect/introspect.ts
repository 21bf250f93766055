import { AppError } from '../../../core/errors.ts'
import { SYSTEM } from '../../../core/identity.ts'
import type { Db } from '../../db.ts'
import { Ident, sql } from '../../sql.ts'
import type { Schema } from '../snapshot.ts'
import type { Catalog } from './catalogue.ts'
import { typeFacts } from './column.ts'
import { fingerprintQuery } from './fingerprint.ts'
import { functionOf } from './function.ts'
import { groupBy, keyOf } from './group.ts'
import { catalogueQuery } from './query.ts'
import { tablesOf } from './table.ts'
import { warningsOf } from './warnings.ts'

const ATTEMPTS = 4
const TIMEOUT_MS = 60_000

/** Schemas that are never exposed, whatever the configuration says. */
const isReserved = (schema: string): boolean => /^(svc|information_schema|pg_.*)$/s.test(schema)

/** A loader of the snapshot: one flight, one JSON text, indexed here. */
export function createIntrospection(db: Db, configured: readonly string[]): () => Promise<Schema> {
  const schemas = configured.filter((name) => !isReserved(name))
  const path = schemas.map((name) => new Ident(name).quoted).join(', ')
  const load = async (): Promise<Schema> => {
    const builtAt = new Date()
    const text = await db.fly(
      SYSTEM,
      [
        // Compiling a statement that runs this rarely would take longer than running it.
        sql`select pg_catalog.set_config('search_path', ${path}, true), pg_catalog.set_config('jit', 'off', true)`,
        catalogueQuery(schemas),
      ],
      { lane: 'slow', timeoutMs: TIMEOUT_MS },
    )
    return toSchema(JSON.parse(text ?? '{}') as Catalog, schemas, builtAt)
  }
  return async () => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await load()
      } catch (error) {
        if (attempt === ATTEMPTS || !isRace(error)) throw error
      }
    }
  }
}

/** PostgreSQL's catalogue functions look past the statement's snapshot and fail on what was dropped since. */
const isRace = (error: unknown): boolean =>
  error instanceof AppError && (error.kind === 'internal' || error.kind === 'not_found')

/** A cheap text that changes whenever the snapshot would. */
export function createFingerprint(db: Db, configured: readonly string[]): () => Promise<string> {
  const schemas = configured.filter((name) => !isReserved(name))
  return async () => (await db.fly(SYSTEM, fingerprintQuery(schemas))) ?? ''
}

function toSchema(catalog: Catalog, schemas: readonly string[], builtAt: Date): Schema {
  const types = new Map(catalog.types.map((type) => [type.key, typeFacts(type, catalog.extensions)]))
  const tables = tablesOf(catalog, types)
  const byOid = new Map([...tables.values()].map((table) => [table.oid, table]))
  const functions = catalog.functions.map((row) => functionOf(row, types, byOid))
  const extension = (wanted: string) => {
    const found = catalog.extensions.find(({ name }) => name === wanted)
    return found && { version: found.version, schema: found.schema }
  }
  return {
    tables,
    functions: groupBy(functions, (fn) => keyOf(fn.schema, fn.name)),
    schemas,
    postGIS: extension('postgis'),
    pgVector: extension('vector'),
    pgTrgm: extension('pg_trgm'),
    serverVersion: catalog.serverVersion,
    warnings: warningsOf(catalog, tables),
    builtAt,
  }
}
