import { AppError, badRequest } from '../../../core/errors.ts'
import type { Conflict } from '../../../db/rows/upsert.ts'
import type { Column, Table } from '../../../db/schema/snapshot.ts'
import { parseKey } from '../target/key.ts'
import { type BodyFields, columnFinder, isFields } from '../write/body.ts'
import { conflictOf } from '../write/conflict.ts'
import { memberTextsOfEach } from './json-slices.ts'

export type BatchMethod = 'create' | 'update' | 'delete' | 'upsert'

export type BatchOperation = {
  readonly index: number
  readonly method: BatchMethod
  /** One text per primary-key column; empty for create and upsert. */
  readonly key: readonly string[]
  /** Empty for delete. */
  readonly columns: readonly Column[]
  /** The body as the client wrote it. */
  readonly body: string
  /** Only for upsert. */
  readonly conflict?: Conflict
}

const MAX_OPERATIONS = 1000
const NO_COLUMNS: readonly Column[] = []
const NO_KEY: readonly string[] = []

/** `body` is the parsed `bodyText`. Every operation is checked before the first one runs. */
export function parseBatch(table: Table, body: unknown, bodyText: string): BatchOperation[] {
  if (!isFields(body)) throw badRequest('invalid JSON body', 'invalid_body')
  const operations = Object.hasOwn(body, 'operations') ? body['operations'] : []
  if (!Array.isArray(operations)) throw badRequest('invalid JSON body', 'invalid_body')
  if (operations.length === 0) throw badRequest('operations array is empty')
  if (operations.length > MAX_OPERATIONS) throw badRequest(`too many operations: max ${MAX_OPERATIONS}`)
  const [ids = [], bodies = []] = memberTextsOfEach(bodyText, 'operations', ['id', 'body'])
  const columnsOf = columnFinder(table)
  return operations.map((operation: unknown, index) =>
    parseOperation(table, columnsOf, operation, { index, idText: ids[index], bodyText: bodies[index] ?? '{}' }),
  )
}

const METHODS: readonly unknown[] = ['create', 'update', 'delete', 'upsert'] satisfies BatchMethod[]
const isMethod = (name: unknown): name is BatchMethod => METHODS.includes(name)

const refusal = (index: number, why: string): AppError => badRequest(`operation[${index}]: ${why}`)

function parseOperation(
  table: Table,
  columnsOf: (body: BodyFields) => readonly Column[],
  input: unknown,
  { index, idText, bodyText }: { index: number; idText: string | undefined; bodyText: string },
): BatchOperation {
  const { method, id: givenId, body, onConflict, merge }: BodyFields = isFields(input) ? input : {}
  if (!isMethod(method)) {
    const shown = typeof method === 'string' ? method.slice(0, 100) : ''
    throw refusal(index, `unknown method "${shown}" (expected create, update, delete, or upsert)`)
  }
  const isInsert = method === 'create' || method === 'upsert'
  const id = isInsert ? undefined : keyText(givenId, idText)
  if (!isInsert && id === undefined) throw refusal(index, `${method} requires an id`)
  if (method !== 'delete' && !isFields(body)) throw refusal(index, `${method} requires a body`)
  try {
    const columns = method === 'delete' ? NO_COLUMNS : columnsOf(body as BodyFields)
    if (method !== 'delete' && columns.length === 0) throw refusal(index, 'no recognized columns in body')
    const key = id === undefined ? NO_KEY : parseKey(table, id, id)
    if (method !== 'upsert') return { index, method, key, columns, body: bodyText }
    const conflict = conflictOf(table, typeof onConflict === 'string' ? onConflict : '', merge, columns)
    return { index, method, key, columns, body: bodyText, conflict }
  } catch (error) {
    throw error instanceof AppError && !error.message.startsWith('operation[') ? blame(error, index) : error
  }
}

/** A number is taken from the request text, which has all its digits. */
function keyText(id: unknown, text: string | undefined): string | undefined {
  if (typeof id === 'string' && id !== '') return id
  return typeof id === 'number' ? text : undefined
}

/** Adds the index of the failed operation to the error of the batch. */
export function blame(error: AppError, index: number): AppError {
  const operation = { code: 'operation_failed', message: `operation[${index}]` }
  return new AppError(error.errorCode, error.message, {
    data: { ...error.data, operation },
    cause: error.cause,
    ...(error.headers && { headers: error.headers }),
  })
}
