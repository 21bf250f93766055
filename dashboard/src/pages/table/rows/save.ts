import type { Core } from 'savanna-client/core'
import { ApiError, dataCore, newRequestId, send } from '../../../api/client.ts'
import type { Table } from '../../../api/schema.ts'
import { text } from '../../../parts/format.ts'
import type { Edits, Problem } from './edits.ts'
import type { RowData } from './row-pages.ts'

const MOST = 1000

type Operation = { method: 'create' | 'update' | 'delete'; id?: string; body?: RowData }

const part = (value: unknown): string => encodeURIComponent(text(value))

/** A row's key as the API takes it in a batch: a composite one with commas, its parts encoded. */
export const idOf = (table: Table, row: RowData): string =>
  table.primaryKey.length === 1
    ? text(row[table.primaryKey[0] ?? ''])
    : table.primaryKey.map((name) => part(row[name])).join()

function operationsOf(edits: Edits): { operations: Operation[]; keys: string[] } {
  const operations: Operation[] = []
  const keys: string[] = []
  const add = (key: string, operation: Operation): void => {
    operations.push(operation)
    keys.push(key)
  }
  for (const key of edits.deleted.keys()) add(key, { method: 'delete', id: key })
  for (const [key, { values }] of edits.updated) {
    if (!edits.deleted.has(key)) add(key, { method: 'update', id: key, body: Object.fromEntries(values) })
  }
  for (const { id, values } of edits.created) add(id, { method: 'create', body: Object.fromEntries(values) })
  return { operations, keys }
}

/** The columns that a refusal is about: named themselves, or by a constraint. */
function columnsOf(table: Table, name: string): string[] {
  if (table.columns.some((column) => column.name === name)) return [name]
  const index = table.indexes?.find((one) => one.name === name)
  const foreign = table.foreignKeys?.find((one) => one.constraintName === name)
  const check = table.checkConstraints?.find((one) => one.name === name)
  if (check) return table.columns.flatMap((column) => (check.definition.includes(column.name) ? [column.name] : []))
  return index?.columns ?? foreign?.columns ?? []
}

export class Refused extends Error {
  readonly key: string
  readonly problem: Problem

  constructor(key: string, problem: Problem) {
    super(problem.message)
    this.key = key
    this.problem = problem
  }
}

function refusal(error: ApiError, table: Table, keys: string[], edits: Edits): Error {
  const place = (error.data?.['operation'] as { message?: string } | undefined)?.message
  const position = /^operation\[(\d+)\]$/.exec(place ?? '')?.[1]
  const key = keys[position === undefined ? (keys.length === 1 ? 0 : -1) : Number(position)]
  if (key === undefined) return error
  const details = Object.entries(error.data ?? {}).filter(([name]) => name !== 'operation')
  const named = details.flatMap(([name]) => columnsOf(table, name))
  const touched = edits.updated.get(key)?.values ?? edits.created.find(({ id }) => id === key)?.values
  const messages = details.flatMap(([, detail]) => (detail as { message?: string } | null)?.message ?? [])
  const columns = named.length > 0 ? named : [...(touched?.keys() ?? [])]
  return new Refused(key, { message: [error.message, ...messages].join(': '), columns, error })
}

/** An administrator is no user: what is a user's by default has to be given to one. */
function requireOwners(core: Core, table: Table, edits: Edits): void {
  if (core !== dataCore) return
  const owned = table.columns.filter((column) => !column.nullable && column.default === 'svc.uid()')
  for (const { id, values } of edits.created) {
    const missing = owned.filter(({ name }) => values.get(name) === undefined).map(({ name }) => name)
    if (missing.length === 0) continue
    const message = `${missing.join(', ')} is the user who writes, and you are an administrator: choose whose row it is, or view as a user`
    throw new Refused(id, { message, columns: missing, error: undefined })
  }
}

/** The API makes no row of nothing. */
function requireValues(table: Table, { created }: Edits): void {
  const empty = created.find(({ values }) => [...values.values()].every((value) => value === undefined))
  if (!empty) return
  const writable = table.columns.filter(({ isGenerated }) => !isGenerated)
  const required = writable.filter((column) => !column.nullable && column.default === undefined && !column.isIdentity)
  const columns = (required.length > 0 ? required : writable).map(({ name }) => name)
  const message = `a new row needs a value: ${columns.length === 1 ? columns[0] : `one of ${columns.join(', ')}`}`
  throw new Refused(empty.id, { message, columns, error: undefined })
}

/** Everything or nothing. Answers the id by which it can be undone. */
export async function save(core: Core, name: string, table: Table, edits: Edits): Promise<string> {
  const { operations, keys } = operationsOf(edits)
  if (operations.length > MOST)
    throw new Error(`${operations.length} rows are too many for one batch: at most ${MOST}. Import a CSV instead.`)
  requireValues(table, edits)
  requireOwners(core, table, edits)
  const requestId = newRequestId()
  const path = `/api/collections/${encodeURIComponent(name)}/batch`
  try {
    await send('POST', path, { body: { operations }, repeat: 'key' }, { headers: { 'x-request-id': requestId } }, core)
  } catch (error) {
    throw error instanceof ApiError ? refusal(error, table, keys, edits) : error
  }
  return requestId
}
