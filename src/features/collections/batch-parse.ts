import { AppError, badRequest } from '../../core/errors.ts'
import type { Column, Table } from '../../db/schema.ts'
import { elementTexts, memberTexts } from './json-slices.ts'
import { parseKey } from './key.ts'
import { columnFinder, type Fields, isFields } from './write-body.ts'

export type Method = 'create' | 'update' | 'delete'

export type Operation = {
  readonly index: number
  readonly method: Method
  /** One text per primary-key column; empty for create. */
  readonly key: readonly string[]
  /** Empty for delete. */
  readonly columns: readonly Column[]
  /** The body as the client wrote it. */
  readonly body: string
}

const MAX_OPERATIONS = 1000
const PARTS = ['id', 'body']
const METHODS: readonly unknown[] = ['create', 'update', 'delete'] satisfies Method[]

/** `body` is the parsed `bodyText`; every operation is checked before the first one is run. */
export function parseBatch(table: Table, body: unknown, bodyText: string): Operation[] {
  if (!isFields(body)) throw badRequest('invalid JSON body')
  const operations = Object.hasOwn(body, 'operations') ? body['operations'] : []
  if (!Array.isArray(operations)) throw badRequest('invalid JSON body')
  if (operations.length === 0) throw badRequest('operations array is empty')
  if (operations.length > MAX_OPERATIONS) throw badRequest(`too many operations: max ${MAX_OPERATIONS}`)
  const texts = elementTexts(memberTexts(bodyText, ['operations'])[0] ?? '[]')
  const columnsOf = columnFinder(table)
  return operations.map((operation: unknown, index) =>
    parseOperation(table, columnsOf, operation, texts[index] ?? '{}', index),
  )
}

function parseOperation(
  table: Table,
  columnsOf: (body: Fields) => readonly Column[],
  input: unknown,
  text: string,
  index: number,
): Operation {
  const refuse = (why: string) => badRequest(`operation[${index}]: ${why}`)
  const own = (name: string): unknown => (isFields(input) && Object.hasOwn(input, name) ? input[name] : undefined)
  const method = own('method')
  if (!METHODS.includes(method)) {
    const shown = typeof method === 'string' ? method.slice(0, 100) : ''
    throw refuse(`unknown method "${shown}" (expected create, update, or delete)`)
  }
  const [idSlice, bodySlice = '{}'] = memberTexts(text, PARTS)
  const id = method === 'create' ? undefined : idText(own('id'), idSlice)
  if (method !== 'create' && id === undefined) throw refuse(`${method as Method} requires an id`)
  const body = own('body')
  if (method !== 'delete' && !isFields(body)) throw refuse(`${method as Method} requires a body`)
  const columns = method === 'delete' ? [] : blaming(index, () => columnsOf(body as Fields))
  if (method !== 'delete' && columns.length === 0) throw refuse('no recognized columns in body')
  return {
    index,
    method: method as Method,
    key: id === undefined ? [] : blaming(index, () => parseKey(table, id, id)),
    columns,
    body: bodySlice,
  }
}

/** A number is taken from the text, with all its digits. */
function idText(id: unknown, slice: string | undefined): string | undefined {
  if (typeof id === 'string' && id !== '') return id
  return typeof id === 'number' ? slice : undefined
}

/** A failure of one operation fails the batch and says which one it was. */
export function blame(error: AppError, index: number): AppError {
  const operation = { code: 'operation_failed', message: `operation[${index}]` }
  return new AppError(error.kind, error.message, {
    data: { ...error.data, operation },
    cause: error.cause,
    ...(error.headers && { headers: error.headers }),
  })
}

function blaming<T>(index: number, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw error instanceof AppError ? blame(error, index) : error
  }
}
