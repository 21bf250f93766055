import { AppError } from '../../core/errors.ts'
import { getOrCreate } from '../../core/get-or-create.ts'
import { type DatabaseRole, databaseSession, type Identity } from '../../core/identity.ts'
import { findRelation, findTable, isVisible, visibleColumns } from './lookup.ts'
import type { Column, Relation, Schema, Table } from './snapshot.ts'

/** The role and tables that limit what a request sees of the schema. */
export type Viewer = {
  readonly role: DatabaseRole
  /** `allowedTables` of an API key or OAuth token; empty = all. */
  readonly allowedTables: readonly string[]
}

const byRole: Record<DatabaseRole, Viewer> = {
  svc_anon: { role: 'svc_anon', allowedTables: [] },
  svc_authenticated: { role: 'svc_authenticated', allowedTables: [] },
  none: { role: 'none', allowedTables: [] },
}

export function viewerOf(who: Identity): Viewer {
  const { role } = databaseSession(who)
  return who.kind === 'key' && who.grant.tables.length > 0 ? { role, allowedTables: who.grant.tables } : byRole[role]
}

/** The key of what is built from the schema for a viewer, and shared: statements, documents. */
export const viewerKey = ({ role, allowedTables }: Viewer): string =>
  allowedTables.length === 0 ? role : `${role} ${JSON.stringify(allowedTables)}`

const newRoles = <T>(): Map<DatabaseRole, T> => new Map()

/** Caches a value per table and role, as long as the snapshot of the table lives. */
function oncePerRole<T>(make: (table: Table, role: DatabaseRole) => T): (table: Table, role: DatabaseRole) => T {
  const cached = new WeakMap<Table, Map<DatabaseRole, T>>()
  return (table, role) => {
    const roles = getOrCreate(cached, table, newRoles<T>)
    const known = roles.get(role)
    return known ?? getOrCreate(roles, role, () => make(table, role))
  }
}

/** The columns that exist for this role, in table order. */
export const columnsFor: (table: Table, role: DatabaseRole) => readonly Column[] = oncePerRole(visibleColumns)

/** The columns to which the role may give a value, in table order; it need not be able to read them. */
export const writableColumns = (table: Table, role: DatabaseRole, how: 'insert' | 'update'): Column[] =>
  [...table.columns.values()].filter(
    ({ isGenerated, privileges }) => !isGenerated && (role === 'none' || privileges[role].has(how)),
  )

/** A column by a name from the request, if it exists for this role. */
export function columnFor(table: Table, name: string, role: DatabaseRole): Column | undefined {
  const column = table.columns.get(name)
  return column && (role === 'none' || column.privileges[role].has('select')) ? column : undefined
}

/** The part of the primary key that exists for this role: all of it or nothing. */
export function keyFor(table: Table, role: DatabaseRole): readonly Column[] {
  return table.primaryKey.every((column) => columnFor(table, column.name, role)) ? table.primaryKey : []
}

export type RelationStep = { readonly relation: Relation; readonly target: Table }

/** A relation by a name from the request, if both ends exist for this role. */
export function relationFor(schema: Schema, table: Table, name: string, role: DatabaseRole): RelationStep | undefined {
  const relation = findRelation(table, name)
  const target = relation && schema.tables.get(relation.to)
  if (!relation || !target || !isVisible(target, role)) return undefined
  const isWhole =
    relation.fromColumns.every((column) => columnFor(table, column, role)) &&
    relation.toColumns.every((column) => columnFor(target, column, role))
  return isWhole ? { relation, target } : undefined
}

export const isAllowed = (schema: Schema, table: Table, viewer: Viewer): boolean =>
  viewer.allowedTables.length === 0 || viewer.allowedTables.some((name) => findTable(schema, name) === table)

export const notAllowed = (table: Table): AppError =>
  new AppError('insufficient_scope', `api key does not have access to table: ${table.name}`)
