import { notFound } from '../../core/errors.ts'
import { findTable, isVisible, mayDo, mayExecute } from '../../db/schema/lookup.ts'
import type { Fn, Policy, Schema, Table } from '../../db/schema/snapshot.ts'
import { columnsFor, isAllowed, notAllowed, relationFor, type Viewer } from '../../db/schema/viewer.ts'
import { shownName, visibleTables } from './tools.ts'

/** All tables and functions of a caller, in short. */
export function describeAll(schema: Schema, viewer: Viewer) {
  const tables = visibleTables(schema, viewer).map((table) => ({
    table: shownName(schema, table),
    ...(table.comment !== undefined && { comment: table.comment }),
    may: mayOf(table, viewer),
    columns: columnsFor(table, viewer.role).map(({ name }) => name),
  }))
  const callable = viewer.allowedTables.length > 0 ? [] : [...schema.functions.values()].flat()
  const functions = callable.filter((fn) => mayExecute(fn, viewer.role)).map(describeFunction)
  return { tables, functions }
}

const describeFunction = ({ name, comment, parameters, returnType, volatility }: Fn) => ({
  function: name,
  ...(comment !== undefined && { comment }),
  args: parameters.map((one) => `${one.name} ${one.type}${one.hasDefault ? ' (optional)' : ''}`),
  returns: returnType,
  ...(volatility !== 'volatile' && { writes: false }),
})

/** One table: columns, relations, its rules in words, and examples as calls. */
export function describeTable(schema: Schema, viewer: Viewer, name: string) {
  const table = findTable(schema, name)
  if (!table || !isVisible(table, viewer.role)) {
    throw notFound(`collection not found: ${name.slice(0, 200)}`, 'collection_not_found')
  }
  if (!isAllowed(schema, table, viewer)) throw notAllowed(table)
  const columns = columnsFor(table, viewer.role)
  const shown = shownName(schema, table)
  return {
    table: shown,
    ...(table.comment !== undefined && { comment: table.comment }),
    primaryKey: table.primaryKey.map((column) => column.name),
    columns: columns.map(({ name: column, type, nullable, default: given, comment, enumValues, isGenerated }) => ({
      name: column,
      type,
      ...(!nullable && { required: given === undefined && !isGenerated }),
      ...(isGenerated && { generated: true }),
      ...(comment !== undefined && { comment }),
      ...(enumValues && { values: enumValues }),
    })),
    relations: table.relations.flatMap(({ fieldName, type, to }) => {
      const step = relationFor(schema, table, fieldName, viewer.role)
      return step && isAllowed(schema, step.target, viewer) ? [{ name: fieldName, type, table: to }] : []
    }),
    may: mayOf(table, viewer),
    rules: rulesOf(schema, table, viewer),
    examples: examplesOf(shown, table, viewer),
  }
}

const mayOf = (table: Table, { role }: Viewer): string[] =>
  (['select', 'insert', 'update', 'delete'] as const).filter((privilege) => mayDo(table, role, privilege))

const COMMANDS = [
  ['select', 'SELECT', 'You see'],
  ['insert', 'INSERT', 'You may create'],
  ['update', 'UPDATE', 'You may change'],
  ['delete', 'DELETE', 'You may delete'],
] as const

/** Policies in words; their SQL is the operator's. */
function rulesOf({ callerIds }: Schema, table: Table, viewer: Viewer): string[] {
  return COMMANDS.flatMap(([privilege, command, verb]) => {
    if (!mayDo(table, viewer.role, privilege)) return []
    if (!table.rlsEnabled) return `${verb} all rows.`
    const policies = table.rlsPolicies.filter((policy) => isFor(policy, command, viewer))
    const permissive = policies.filter((policy) => policy.permissive)
    if (permissive.length === 0) return `${verb} no rows.`
    const words = [...new Set(permissive.map((policy) => wordsOf(policy, command, callerIds)))]
    const isNarrowed = policies.length > permissive.length
    return `${verb} ${words.join(', and ')}${isNarrowed ? ', as far as further rules of the operator allow' : ''}.`
  })
}

const isFor = ({ command, callers }: Policy, wanted: string, { role }: Viewer): boolean =>
  callers.includes(role) && (command === wanted || command === 'ALL')

function wordsOf({ usingExpr, withCheckExpr }: Policy, command: string, callerIds: readonly string[]): string {
  const rule = (command === 'INSERT' ? (withCheckExpr ?? usingExpr) : usingExpr) ?? 'true'
  if (/^\(*true\)*$/i.test(rule)) return 'all rows'
  const named = callerIds.reduce(
    (text, id) => text.replaceAll(`( SELECT ${id} AS uid)`, 'svc.uid()').replaceAll(id, 'svc.uid()'),
    rule,
  )
  const plain = named.replaceAll('::text', '')
  const [, left, right] =
    /^\(*"?(\w+)"?\)* = \(*svc\.uid\(\)\)*$|^\(*svc\.uid\(\)\)* = \(*"?(\w+)"?\)*$/.exec(plain) ?? []
  const owner = left ?? right
  return owner === undefined ? 'rows that a rule of the operator allows' : `rows whose ${owner} is you`
}

function examplesOf(shown: string, table: Table, viewer: Viewer): string[] {
  const [key] = table.primaryKey
  const [column] = columnsFor(table, viewer.role).filter(({ isPrimaryKey }) => !isPrimaryKey)
  const call = (tool: string, args: object): string => `${tool} ${JSON.stringify({ table: shown, ...args })}`
  const filter = column && (column.jsonType === 'integer' ? `${column.name} > 10` : `${column.name} = 'a value'`)
  return [
    call('list', { ...(filter && { filter }), ...(key && { sort: `-${key.name}` }) }),
    ...(key ? [call('get', { id: '…' })] : []),
    ...(column && mayDo(table, viewer.role, 'insert') ? [call('create', { body: { [column.name]: '…' } })] : []),
  ]
}
