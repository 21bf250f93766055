import { badRequest } from '../../../core/errors.ts'
import { type DatabaseSession, databaseSession, type Identity } from '../../../core/identity.ts'
import type { Db } from '../../../db/db.ts'
import { isBadValue } from '../../../db/pg-errors.ts'
import { compileFilter } from '../../../db/schema/filter/filter.ts'
import { invalidFilter } from '../../../db/schema/filter/parse.ts'
import { findTable, mayDo } from '../../../db/schema/lookup.ts'
import { rowAlias } from '../../../db/schema/row-image.ts'
import type { Schema, Table } from '../../../db/schema/snapshot.ts'
import { isAllowed, notAllowed, type Viewer, viewerOf } from '../../../db/schema/viewer.ts'
import type { Sql } from '../../../db/sql.ts'
import { filterOnNothing } from './sql.ts'
import { boundedNames, EVERYTHING, hasFilter, type Wanted, wantedTables, wants } from './wanted.ts'

/** What one subscriber wants to hear of. Streams with the same key always hear the same. */
export type Interest = {
  readonly who: Identity
  readonly viewer: Viewer
  readonly session: DatabaseSession
  /** Subscribers with the same database session see the same rows. */
  readonly sessionKey: string
  readonly wanted: Wanted
  /** Callers write filters, so what they cost is counted on them. */
  readonly isFiltered: boolean
  readonly key: string
}

/** `tables` undefined = all that the caller may read. */
export type Asked = { tables: readonly string[] | undefined; filter?: string | undefined }

export type InterestDeps = {
  db: Db
  findTable: (name: string) => Promise<Table | undefined>
  schema: () => Schema
}

/** What is asked for, if it is there and the caller may. */
export async function wantedBy(who: Identity, asked: Asked, deps: InterestDeps): Promise<Wanted> {
  const viewer = viewerOf(who)
  const found = await tablesOf(asked.tables, viewer, deps)
  const filter = asked.filter?.trim() ? asked.filter : undefined
  const [only] = found ?? []
  if (filter !== undefined) {
    if (!only || found?.length !== 1) throw badRequest('filter requires exactly one table')
    await tryFilter(deps.db, who, filter, only, { schema: deps.schema(), viewer })
  }
  return found ? wantedTables(found.map(keyOf), filter) : EVERYTHING
}

export function interestOf(who: Identity, wanted: Wanted): Interest {
  const viewer = viewerOf(who)
  const session = databaseSession(who)
  const sessionKey = JSON.stringify([session.role, session.userId, session.email, session.aal])
  const key = JSON.stringify([sessionKey, viewer.allowedTables, wanted.others, [...wanted.tables].sort()])
  return { who, viewer, session, sessionKey, wanted, isFiltered: hasFilter(wanted), key }
}

export const keyOf = ({ schema, name }: { schema: string; name: string }): string => `${schema}.${name}`

async function tablesOf(
  names: readonly string[] | undefined,
  viewer: Viewer,
  deps: InterestDeps,
): Promise<Table[] | undefined> {
  if (names === undefined) return undefined
  const found: Table[] = []
  for (const name of boundedNames(names)) {
    const table = findTable(deps.schema(), name) ?? (await deps.findTable(name))
    if (!table || !mayDo(table, viewer.role, 'select')) throw badRequest(`unknown table: ${name}`)
    if (!isAllowed(deps.schema(), table, viewer)) throw notAllowed(table)
    found.push(table)
  }
  return found
}

/** PostgreSQL judges the literals, so that a stream never starts with a filter that cannot be evaluated. */
async function tryFilter(
  db: Db,
  who: Identity,
  text: string,
  table: Table,
  scope: { schema: Schema; viewer: Viewer },
): Promise<void> {
  try {
    await db.fly(who, filterOnNothing({ schema: scope.schema, table }, compile(text, table, scope)))
  } catch (error) {
    if (isBadValue(error)) throw invalidFilter((error as Error).message)
    throw error
  }
}

export const compile = (text: string, table: Table, { schema, viewer }: { schema: Schema; viewer: Viewer }): Sql => {
  const filter = compileFilter(text, table, rowAlias(table), { schema, viewer, withoutRelations: true })
  if (!filter) throw invalidFilter('empty')
  return filter
}

/** May this subscriber hear of changes of this table at all? A view's rows belong to tables whose policies cannot be asked. */
export function listensTo(interest: Interest, key: string, table: Table | undefined, schema: Schema): boolean {
  if (!wants(interest.wanted, key)) return false
  if (interest.viewer.role === 'none') return true
  if (!table || table.kind === 'view' || table.kind === 'materialized_view') return false
  return mayDo(table, interest.viewer.role, 'select') && isAllowed(schema, table, interest.viewer)
}
