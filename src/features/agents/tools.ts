import { AppError, badRequest } from '../../core/errors.ts'
import type { JsonSchema } from '../../core/json-type.ts'
import * as t from '../../core/json-type.ts'
import { isVisible, mayExecute } from '../../db/schema/lookup.ts'
import type { Schema, Table } from '../../db/schema/snapshot.ts'
import { isAllowed, type Viewer } from '../../db/schema/viewer.ts'
import type { Route } from '../../http/route.ts'
import type { Tool } from './protocol.ts'

export type Args = Readonly<Record<string, unknown>>

const READS = ['describe', 'list', 'get', 'search', 'aggregate', 'history'] as const
const WRITES = ['create', 'update', 'delete', 'call', 'undo'] as const
export type ToolName = (typeof READS)[number] | (typeof WRITES)[number]
export const isWriteTool = (name: string): boolean => (WRITES as readonly string[]).includes(name)

/** More are left to `describe`, because every name costs the model's attention. */
const MOST_NAMED = 40

const table = t.string({ description: 'table, or schema.table' })
const id = t.string({ description: 'primary key; parts separated by commas' })
const confirm = t.string({ description: 'token of the tried write' })
const body = { type: 'object', description: 'values by column' }

type Properties = Readonly<Record<string, JsonSchema>>
const TWO_STEPS = 'Without confirm it is only tried: the answer is the difference and a token to confirm it.'

const properties = (list: Properties): Readonly<Record<ToolName, [string, Properties, readonly string[]]>> => {
  const page = { page: { type: 'integer' }, perPage: { type: 'integer', maximum: 200 } }
  const { filter, sort, aggregate, group, search } = list
  return {
    describe: ['Columns, relations, rules and examples of a table, or all tables and functions.', { table }, []],
    list: [
      'Rows of a table.',
      { table, filter: filter ?? {}, sort: sort ?? {}, fields: t.string(), ...page },
      ['table'],
    ],
    get: ['One row.', { table, id }, ['table', 'id']],
    search: [
      'Rows by words in their texts.',
      { table, query: search ?? {}, filter: t.string(), ...page },
      ['table', 'query'],
    ],
    aggregate: [
      'Counts, sums, averages, by groups.',
      { table, query: aggregate ?? {}, group: group ?? {}, filter: t.string() },
      ['table', 'query'],
    ],
    history: ['Changes of one row.', { table, id }, ['table', 'id']],
    create: [`Create a row. ${TWO_STEPS}`, { table, body, confirm }, ['table', 'body']],
    update: ['Change a row; two steps as create.', { table, id, body, confirm }, ['table', 'id', 'body']],
    delete: ['Delete a row; two steps as create.', { table, id, confirm }, ['table', 'id']],
    call: [
      'Call a function; two steps if it writes.',
      { function: t.string(), args: { type: 'object', description: 'arguments by name' }, confirm },
      ['function'],
    ],
    undo: [
      'Undo an own write; two steps.',
      { request_id: t.string({ description: 'of the answer to that write' }), confirm },
      ['request_id'],
    ],
  }
}

const NO_TOOL: [string, Properties, readonly string[]] = ['', {}, []]

/** The tools of a server: their schemas are those of the routes behind them. */
export class Tools {
  readonly #defined: ReadonlyMap<string, [string, Properties, readonly string[]]>

  constructor(list: Route) {
    this.#defined = new Map(Object.entries(properties(list.contract.query ?? {})))
  }

  /** What this caller may use, naming the tables that it sees. */
  offered(schema: Schema, viewer: Viewer, mayWrite: boolean): Tool[] {
    const names = visibleTables(schema, viewer).map((one) => shownName(schema, one))
    const shown = names.slice(0, MOST_NAMED).join(', ')
    const more = names.length > MOST_NAMED ? ` and ${names.length - MOST_NAMED} more` : ''
    const hasCall = viewer.allowedTables.length === 0 && hasFunctions(schema, viewer)
    return [...this.#defined].flatMap(([name, [description, fields, required]]) => {
      if (isWriteTool(name) && !mayWrite) return []
      if (name === 'call' && !hasCall) return []
      return {
        name,
        description: name === 'describe' ? `${description} Tables: ${shown}${more}.` : description,
        inputSchema: { type: 'object', properties: fields, required, additionalProperties: false },
        annotations: isWriteTool(name) ? { destructiveHint: name !== 'create' } : { readOnlyHint: true },
      }
    })
  }

  has(name: string): name is ToolName {
    return this.#defined.has(name)
  }

  /** Throws for arguments that the tool does not have: a mistyped one must not mean another write. */
  check(name: ToolName, args: Args): void {
    const [, fields, required] = this.#defined.get(name) ?? NO_TOOL
    for (const [key, value] of Object.entries(args)) {
      const field = Object.hasOwn(fields, key) ? fields[key] : undefined
      if (!field) throw badRequest(`unknown argument: ${key.slice(0, 100)}`, 'invalid_arguments')
      if (!isOf(field, value)) throw badRequest(`${key} must be ${article(field)}`, 'invalid_arguments')
    }
    const missing = required.find((key) => args[key] === undefined)
    if (missing !== undefined) throw badRequest(`${missing} is required`, 'invalid_arguments')
  }
}

const typeOf = ({ type }: JsonSchema): string => (typeof type === 'string' ? type : 'string')
const article = (schema: JsonSchema): string =>
  /^[aeio]/.test(typeOf(schema)) ? `an ${typeOf(schema)}` : `a ${typeOf(schema)}`

function isOf(schema: JsonSchema, value: unknown): boolean {
  switch (typeOf(schema)) {
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value)
    case 'integer':
      return Number.isSafeInteger(value)
    default:
      // Models write the key of a row as they saw it.
      return typeof value === 'string' || (Number.isFinite(value) && schema === id)
  }
}

export const visibleTables = (schema: Schema, viewer: Viewer): Table[] =>
  [...schema.tables.values()].filter((one) => isVisible(one, viewer.role) && isAllowed(schema, one, viewer))

const hasFunctions = (schema: Schema, { role }: Viewer): boolean =>
  [...schema.functions.values()].some((overloads) => overloads.some((fn) => mayExecute(fn, role)))

/** As callers name it: without the schema where it is found without. */
export const shownName = (schema: Schema, { schema: space, name }: Table): string =>
  schema.schemas[0] === space ? name : `${space}.${name}`

export const readOnlyRefusal = (): AppError =>
  new AppError('insufficient_scope', 'this connection is read only: the user did not agree to writes')
