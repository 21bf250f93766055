import { AppError } from '../../../core/errors.ts'
import { SYSTEM } from '../../../core/identity.ts'
import type { Db } from '../../db.ts'
import { Ident, sql } from '../../sql.ts'
import type { Schema } from '../snapshot.ts'
import type { Catalog } from './catalogue.ts'
import { typeFacts } from './column.ts'
import { fingerprintQuery } from './fingerprint.ts'
import { functionOf } from './function.ts'
import { groupBy, groupKey } from './group.ts'
import { findOdd, type OddObject } from './odd-objects.ts'
import { catalogueQuery, type ObjectSelection, objectsQuery } from './query.ts'
import { tablesOf } from './table.ts'
import { warningsOf } from './warnings.ts'

/** The only table of ours in a snapshot. */
const OBJECTS = 'svc.objects'
const ATTEMPTS = 4
const TIMEOUT_MS = 60_000

/** Schemas that are never exposed, whatever the configuration says. */
const isReserved = (schema: string): boolean => /^(svc|information_schema|pg_.*)$/s.test(schema)

/** A snapshot, and the fingerprint that was taken just before it. */
export type LoadedSchema = { readonly schema: Schema; readonly fingerprint: string }

/** Makes the loader of the snapshot: one flight that returns one JSON text. */
export function createIntrospection(db: Db, configured: readonly string[]): () => Promise<LoadedSchema> {
  const schemas = configured.filter((name) => !isReserved(name))
  const path = schemas.map((name) => new Ident(name).quoted).join(', ')
  const describe = (selection: ObjectSelection): Promise<(string | null)[]> =>
    db.fly(
      SYSTEM,
      [
        fingerprintQuery(schemas),
        // JIT compilation of this statement would take longer than running it.
        sql`select pg_catalog.set_config('search_path', ${path}, true), pg_catalog.set_config('jit', 'off', true)`,
        catalogueQuery(schemas, selection),
      ],
      { kind: 'slow', timeoutMs: TIMEOUT_MS, givesWay: true },
    )
  const attempt = async (odd: readonly OddObject[]): Promise<LoadedSchema> => {
    const builtAt = new Date()
    for (let tries = 1; ; tries++) {
      try {
        const [fingerprint, , text] = await describe({ without: odd.map(({ oid }) => oid) })
        const schema = await toSchema(JSON.parse(text ?? '{}') as Catalog, schemas, builtAt, odd)
        return { schema, fingerprint: fingerprint ?? '' }
      } catch (error) {
        if (tries === ATTEMPTS || !isRace(error)) throw error
      }
    }
  }
  let odd: readonly OddObject[] = []
  return async () => {
    try {
      return await attempt([])
    } catch (error) {
      if (!isRace(error)) throw error
      const named = await db.rows<{ oid: number; name: string }>(SYSTEM, objectsQuery(schemas))
      const known = named.filter(({ oid }) => odd.some((object) => object.oid === oid))
      odd = await findOdd(named, known, describe)
      if (odd.length === 0) throw error
      return attempt(odd)
    }
  }
}

/** PostgreSQL's catalogue functions do not use the statement's snapshot, and fail on objects dropped since. */
const isRace = (error: unknown): boolean => error instanceof AppError && (error.status === 500 || error.status === 404)

/** A cheap text that changes whenever the snapshot would. */
export function createFingerprint(db: Db, configured: readonly string[]): () => Promise<string> {
  const schemas = configured.filter((name) => !isReserved(name))
  return async () => (await db.fly(SYSTEM, fingerprintQuery(schemas))) ?? ''
}

async function toSchema(
  catalog: Catalog,
  schemas: readonly string[],
  builtAt: Date,
  odd: readonly OddObject[],
): Promise<Schema> {
  const types = new Map(catalog.types.map((type) => [type.key, typeFacts(type, catalog.extensions)]))
  const tables = await tablesOf(catalog, types)
  const objects = tables.get(OBJECTS)
  tables.delete(OBJECTS)
  const byOid = new Map([...tables.values()].map((table) => [table.oid, table]))
  const functions = catalog.functions.map((row) => functionOf(row, types, byOid))
  const extension = (extensionName: string) => {
    const found = catalog.extensions.find(({ name }) => name === extensionName)
    return found && { version: found.version, schema: found.schema }
  }
  return {
    tables,
    objects,
    functions: groupBy(functions, (fn) => groupKey(fn.schema, fn.name)),
    schemas,
    postGIS: extension('postgis'),
    pgVector: extension('vector'),
    pgTrgm: extension('pg_trgm'),
    serverVersion: catalog.serverVersion,
    callerIds: catalog.callerIds,
    warnings: [
      ...warningsOf(catalog, tables),
      ...odd.map(({ name, reason }) => `${name} is left out, because PostgreSQL cannot describe it: ${reason}`),
    ],
    builtAt,
  }
}
