import { fullName, quoteName, quoteText, type Table } from '../../../api/schema.ts'
import { graphqlValue, isGraphqlName } from '../graphql.ts'

type Operator = '=' | '!=' | '>' | '>=' | '<' | '<=' | '~' | '!~'
type Value = { text: string } | { bare: string }
type Tree =
  | { column: string; operator: Operator; value: Value }
  | { column: string; values: Value[] }
  | { join: 'AND' | 'OR'; parts: Tree[] }

const TOKEN =
  /\s*(?:('(?:[^'\\]|\\.)*')|("(?:[^"]|"")*"|[\p{L}_][\p{L}\p{N}_]*)|(-?\d+(?:\.\d+)?)|(!=|>=|<=|!~|&&|\|\||[=<>~(),]))/uy

/** The tree of a filter over the table's own columns; null for anything further, such as relations and functions. */
function treeOf(table: Table, filter: string): Tree | null {
  const tokens: { kind: 'text' | 'name' | 'number' | 'sign'; is: string }[] = []
  TOKEN.lastIndex = 0
  while (TOKEN.lastIndex < filter.trimEnd().length) {
    const found = TOKEN.exec(filter)
    if (!found) return null
    const [, text, name, number, sign = ''] = found
    if (text !== undefined) tokens.push({ kind: 'text', is: text.slice(1, -1).replace(/\\(.)/g, '$1') })
    else if (name !== undefined)
      tokens.push({ kind: 'name', is: name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name })
    else if (number !== undefined) tokens.push({ kind: 'number', is: number })
    else tokens.push({ kind: 'sign', is: { '&&': 'AND', '||': 'OR' }[sign] ?? sign })
  }
  let at = 0
  const isNext = (word: string): boolean => {
    const token = tokens[at]
    return (token?.kind === 'sign' || token?.kind === 'name') && token.is.toUpperCase() === word
  }
  const fail = (): never => {
    throw new SyntaxError('not of this kind')
  }
  const take = (word: string): void => {
    if (!isNext(word)) fail()
    at++
  }
  function value(): Value {
    const token = tokens[at++] ?? fail()
    if (token.kind === 'text') return { text: token.is }
    if (token.kind === 'number' || /^(null|true|false)$/i.test(token.is)) return { bare: token.is.toLowerCase() }
    return fail()
  }
  function condition(): Tree {
    if (isNext('(')) {
      at++
      const inner = joined('OR')
      take(')')
      return inner
    }
    const token = tokens[at++]
    const column = table.columns.find(({ name }) => token?.kind === 'name' && name === token.is)?.name ?? fail()
    if (isNext('IN')) {
      at++
      take('(')
      const values = [value()]
      while (isNext(',')) {
        at++
        values.push(value())
      }
      take(')')
      return { column, values }
    }
    const operator = tokens[at++]
    if (operator?.kind !== 'sign' || !/^(!?=|[<>]=?|!?~)$/.test(operator.is)) return fail()
    return { column, operator: operator.is as Operator, value: value() }
  }
  function joined(join: 'AND' | 'OR'): Tree {
    const parts = [join === 'OR' ? joined('AND') : condition()]
    while (isNext(join)) {
      at++
      parts.push(join === 'OR' ? joined('AND') : condition())
    }
    const [only] = parts
    return parts.length === 1 && only ? only : { join, parts }
  }
  try {
    const tree = joined('OR')
    return at === tokens.length ? tree : null
  } catch {
    return null
  }
}

const isNull = (value: Value): boolean => 'bare' in value && value.bare === 'null'
const sqlValue = (value: Value): string => ('bare' in value ? value.bare : quoteText(value.text))

const SQL_OPERATORS = { '~': '~~', '!~': '!~~', '!=': '<>' } as Record<string, string>

function sqlCondition(tree: Tree): string {
  if ('join' in tree) return `(${tree.parts.map(sqlCondition).join(` ${tree.join.toLowerCase()} `)})`
  const column = quoteName(tree.column)
  if ('values' in tree) return `${column} in (${tree.values.map(sqlValue).join(', ')})`
  const { operator, value } = tree
  if (isNull(value)) return `${column} is ${operator === '=' ? '' : 'not '}null`
  return `${column}${operator.endsWith('~') ? '::text' : ''} ${SQL_OPERATORS[operator] ?? operator} ${sqlValue(value)}`
}

const GRAPHQL_OPERATORS = {
  '=': '_eq',
  '!=': '_neq',
  '>': '_gt',
  '>=': '_gte',
  '<': '_lt',
  '<=': '_lte',
  '~': '_like',
} as Record<string, string>

/** Null where GraphQL says it otherwise. */
function graphqlCondition(table: Table, tree: Tree): string | null {
  if ('join' in tree) {
    const parts = tree.parts.map((part) => graphqlCondition(table, part))
    return parts.includes(null) ? null : `{_${tree.join.toLowerCase()}: [${parts.join(', ')}]}`
  }
  const column = table.columns.find(({ name }) => name === tree.column)
  const shown = (value: Value): string | null => ('bare' in value ? value.bare : graphqlValue(column, value.text))
  const given = ('values' in tree ? tree.values : [tree.value]).map(shown)
  if (!isGraphqlName(tree.column) || given.includes(null)) return null
  if ('values' in tree) return `{${tree.column}: {_in: [${given.join(', ')}]}}`
  if (isNull(tree.value)) return `{${tree.column}: {_is_null: ${tree.operator === '='}}}`
  const operator = GRAPHQL_OPERATORS[tree.operator]
  return operator ? `{${tree.column}: {${operator}: ${given[0]}}}` : null
}

const orderOf = (sort: string): { column: string; isDown: boolean }[] =>
  sort
    .split(',')
    .filter(Boolean)
    .map((part) => ({ column: part.replace(/^[-+]/, ''), isDown: part.startsWith('-') }))

export type Viewed = { filter: string; sort: string; fields: readonly string[] }

/** The rows in view as SQL; null where the filter asks for more than columns of this table. */
export function sqlOf(table: Table, { filter, sort, fields }: Viewed): string | null {
  const tree = filter ? treeOf(table, filter) : undefined
  if (tree === null) return null
  const order = orderOf(sort).map(({ column, isDown }) => quoteName(column) + (isDown ? ' desc' : ''))
  return [
    `select ${fields.map(quoteName).join(', ')} from ${fullName(table)}`,
    ...(tree ? [`where ${sqlCondition(tree)}`] : []),
    ...(order.length > 0 ? [`order by ${order.join(', ')}`] : []),
    'limit 100;',
  ].join('\n')
}

/** The same as GraphQL, whose names are plain words. */
export function graphqlOf(field: string | null, table: Table, { filter, sort, fields }: Viewed): string | null {
  const tree = filter ? treeOf(table, filter) : undefined
  const where = tree ? graphqlCondition(table, tree) : tree
  const order = orderOf(sort)
  const names = [...fields, ...order.map(({ column }) => column)]
  if (field === null || where === null || !names.every(isGraphqlName)) return null
  const given = [
    'limit: 100',
    ...(where ? [`where: ${where}`] : []),
    ...(order.length > 0
      ? [`order_by: [${order.map(({ column, isDown }) => `{${column}: ${isDown ? 'DESC' : 'ASC'}}`).join(', ')}]`]
      : []),
  ]
  return `{ ${field}(${given.join(', ')}) { ${fields.join(' ')} } }`
}

/** The same with the client. What is typed stays text: values of a template would be quoted. */
export function clientOf(name: string, { filter, sort, fields }: Viewed): string {
  const template = filter.replaceAll('\\', '\\\\').replaceAll('`', '\\`').replaceAll('${', '\\${')
  const options = [
    ...(filter ? [`filter: where\`${template}\``] : []),
    ...(sort ? [`sort: ${JSON.stringify(sort.split(','))}`] : []),
    `fields: ${JSON.stringify(fields)}`,
  ]
  return `await svc.from(${JSON.stringify(name)}).list({ ${options.join(', ')} })`
}
