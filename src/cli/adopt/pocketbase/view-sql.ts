import type { Collection, CollectionField } from './collections.ts'
import { literal, quoted } from './rule-sql.ts'
import { HELPERS } from './sql-functions.ts'

/** Why a query of SQLite is not plain enough to mean the same here. */
export class ViewError extends Error {}

type Token = { kind: 'name' | 'text' | 'number' | 'sign'; text: string }

const TOKENS: readonly (readonly [Token['kind'] | undefined, RegExp])[] = [
  [undefined, /\s+|--[^\n]*|\/\*[\s\S]*?\*\//y],
  ['name', /[A-Za-z_]\w*|"(?:[^"]|"")+"|`[^`]+`|\[[^\]]+\]/y],
  ['text', /'(?:[^']|'')*'/y],
  ['number', /\d+(?:\.\d+)?/y],
  ['sign', /<=|>=|<>|!=|==|\|\||[(),.=<>+*-]/y],
]

function tokensOf(query: string): Token[] {
  const tokens: Token[] = []
  for (let at = 0; at < query.length; ) {
    let end = at
    for (const [kind, pattern] of TOKENS) {
      pattern.lastIndex = at
      const found = pattern.exec(query)?.[0]
      if (found === undefined) continue
      if (kind) tokens.push({ kind, text: found })
      end = at + found.length
      break
    }
    if (end === at) throw new ViewError(`“${query.slice(at, at + 20)}” is not plain`)
    at = end
  }
  return tokens
}

const isQuoted = (text: string): boolean => /^["`[]/.test(text)
const bare = (text: string): string => (isQuoted(text) ? text.slice(1, -1).replaceAll('""', '"') : text)

/** Of these SQLite and PostgreSQL make the same. */
const AGGREGATES = new Set(['count', 'sum', 'avg', 'min', 'max'])
const FUNCTIONS = new Set([...AGGREGATES, 'coalesce', 'ifnull', 'nullif', 'abs', 'length'])
const OPERATORS = new Set(['and', 'or', 'not', 'is', 'null', 'in', 'between', 'case', 'when', 'then', 'else', 'end'])
/** Where a part of the query begins. */
const CLAUSES = new Set([
  'from',
  'where',
  'group',
  'having',
  'order',
  'left',
  'inner',
  'cross',
  'join',
  'on',
  'limit',
  'union',
])

type Place = {
  alias: string
  collection: Collection /** Of a left join, where every column may be missing. */
  isOptional: boolean
}

/**
 * A query of a view collection, of one SELECT over collections, as PostgreSQL's. Columns in expressions have the values they
 * have in SQLite: an empty relation is '', a bool is 0 or 1, texts compare byte by byte.
 */
export function translateView(
  query: string,
  byName: ReadonlyMap<string, Collection>,
): { sql: string; names: string[] } {
  const tokens = tokensOf(query.trim().replace(/;\s*$/, ''))
  let at = 0
  const word = (ahead = 0): string => {
    const token = tokens[at + ahead]
    return token?.kind === 'name' && !isQuoted(token.text) ? token.text.toLowerCase() : ''
  }
  const sign = (ahead = 0): string => (tokens[at + ahead]?.kind === 'sign' ? (tokens[at + ahead]?.text ?? '') : '')
  const fail = (): never => {
    throw new ViewError(`“${tokens[at]?.text ?? 'its end'}” is not plain`)
  }
  const take = (expected: string): void => {
    if (word() !== expected && sign() !== expected) fail()
    at++
  }
  const name = (): string => {
    const token = tokens[at]
    if (token?.kind !== 'name') return fail()
    at++
    return bare(token.text)
  }

  // Tables come after the columns that name them, so they are read first.
  take('select')
  const isDistinct = word() === 'distinct'
  if (isDistinct) at++
  const start = at
  for (let depth = 0; depth > 0 || word() !== 'from'; at++) {
    if (at >= tokens.length) fail()
    depth += sign() === '(' ? 1 : sign() === ')' ? -1 : 0
  }
  const places: Place[] = []
  const tableAt = (isOptional: boolean): string => {
    const found = byName.get(name())
    if (!found || found.type === 'view') throw new ViewError('it reads something that is no collection with a table')
    if (word() === 'as') at++
    const isAlias = tokens[at]?.kind === 'name' && !CLAUSES.has(word())
    const alias = isAlias ? name() : found.name
    if (places.some((place) => place.alias === alias)) fail()
    places.push({ alias, collection: found, isOptional })
    return `public.${quoted(found.name)} ${quoted(alias)}`
  }
  /** Skips an ON condition, to be translated when all tables are known. */
  const skip = (): number => {
    const from = at
    for (let depth = 0; at < tokens.length; at++) {
      depth += sign() === '(' ? 1 : sign() === ')' ? -1 : 0
      if (depth === 0 && CLAUSES.has(word()) && word() !== 'on') break
    }
    return from
  }
  take('from')
  const joins: { head: string; on: number | undefined }[] = [{ head: tableAt(false), on: undefined }]
  while (['left', 'inner', 'cross', 'join'].includes(word())) {
    const kind = word() === 'join' ? 'inner' : word()
    if (word() !== 'join') at++
    if (word() === 'outer') at++
    take('join')
    const head = `${kind} join ${tableAt(kind === 'left')}`
    if (kind === 'cross') joins.push({ head, on: undefined })
    else {
      take('on')
      joins.push({ head, on: skip() })
    }
  }
  const rest = at

  const referenceAt = (isWhole: boolean): string => {
    const first = name()
    const isLong = sign() === '.'
    if (isLong) at++
    const wanted = isLong ? name() : first
    const has = ({ collection }: Place): boolean =>
      wanted === 'id' || collection.fields.some((field) => field.name === wanted)
    const fitting = places.filter((place) => (isLong ? place.alias === first && has(place) : has(place)))
    const [place, ...more] = fitting
    if (!place || more.length > 0)
      throw new ViewError(`${isLong ? `${first}.${wanted}` : wanted} is no column that comes along`)
    const column = `${quoted(place.alias)}.${quoted(wanted)}`
    const field = place.collection.fields.find((one) => one.name === wanted)
    if (field?.hidden) throw new ViewError(`${wanted} is hidden`)
    if (isWhole) return column
    const value = asInSqlite(column, field)
    return place.isOptional ? `(case when ${quoted(place.alias)}."id" is not null then ${value} end)` : value
  }

  /** Up to a comma, a closing bracket or the next clause. */
  const expression = (isAlone: boolean): string => {
    const next = tokens[at + (sign(1) === '.' ? 3 : 1)]
    const endsThere =
      next === undefined || next.text === ',' || (next.kind === 'name' && !OPERATORS.has(next.text.toLowerCase()))
    if (
      isAlone &&
      tokens[at]?.kind === 'name' &&
      !OPERATORS.has(word()) &&
      sign(1) !== '(' &&
      endsThere &&
      word() !== 'true' &&
      word() !== 'false'
    )
      return referenceAt(true)
    const parts: string[] = []
    while (at < tokens.length) {
      const token = tokens[at]
      if (!token || token.text === ',' || token.text === ')' || (CLAUSES.has(word()) && word() !== 'left')) break
      if (token.kind === 'text') {
        parts.push(literal(token.text.slice(1, -1).replaceAll("''", "'")))
        at++
      } else if (token.kind === 'number') {
        parts.push(token.text)
        at++
      } else if (token.text === '(') {
        at++
        if (word() === 'select') fail()
        parts.push(`(${listUntilClose()})`)
      } else if (token.kind === 'sign') {
        if (token.text === '.') fail()
        parts.push(token.text === '==' ? '=' : token.text)
        at++
      } else if (
        word() === 'as' ||
        (isAlone && parts.length > 0 && !OPERATORS.has(word()) && isOperandEnd(tokens[at - 1]))
      )
        break
      else if (word() === 'asc' || word() === 'desc') at++
      else if (OPERATORS.has(word())) {
        parts.push(word())
        at++
      } else if (word() === 'true' || word() === 'false') {
        parts.push(word() === 'true' ? '1' : '0')
        at++
      } else if (sign(1) === '(') parts.push(callAt())
      else parts.push(referenceAt(false))
    }
    if (parts.length === 0) fail()
    return parts.join(' ')
  }
  const listUntilClose = (): string => {
    const items: string[] = [expression(false)]
    while (sign() === ',') {
      at++
      items.push(expression(false))
    }
    take(')')
    return items.join(', ')
  }
  const callAt = (): string => {
    const called = name().toLowerCase()
    take('(')
    if (called === 'row_number') {
      for (const part of [')', 'over', '(', ')']) take(part)
      return 'row_number() over ()'
    }
    if (called === 'cast') return castAt()
    if (!FUNCTIONS.has(called)) throw new ViewError(`the function ${called} is not plain`)
    if (called === 'count' && sign() === '*') {
      at++
      take(')')
      return 'count(*)'
    }
    const isOfDistinct = AGGREGATES.has(called) && word() === 'distinct'
    if (isOfDistinct) at++
    const inner = listUntilClose()
    // In SQLite min and max of several are of one row.
    if (AGGREGATES.has(called) && hasComma(inner)) throw new ViewError(`${called} of several is not plain`)
    return `${called === 'ifnull' ? 'coalesce' : called}(${isOfDistinct ? 'distinct ' : ''}${inner})`
  }
  /** SQLite cuts what follows the point. */
  const castAt = (): string => {
    const inner = expression(false)
    take('as')
    const type = word()
    at++
    take(')')
    if (type === 'int' || type === 'integer') return `trunc((${inner})::numeric)::bigint`
    if (type === 'real' || type === 'numeric') return `((${inner})::double precision)`
    throw new ViewError(`a cast to ${type} is not plain`)
  }

  at = start
  const items: string[] = []
  const names: string[] = []
  do {
    if (at > start) take(',')
    const first = tokens[at + (sign(1) === '.' ? 2 : 0)]
    const value = expression(true)
    if (word() === 'as') at++
    const isNamed = tokens[at]?.kind === 'name' && word() !== 'from'
    const given = isNamed ? name() : first?.kind === 'name' ? bare(first.text) : fail()
    names.push(given)
    items.push(`${value} as ${quoted(given)}`)
  } while (sign() === ',')
  if (word() !== 'from') fail()

  const from = joins.map(({ head, on }) => {
    if (on === undefined) return head
    at = on
    return `${head} on ${expression(false)}`
  })
  at = rest
  const more: string[] = []
  if (word() === 'where') {
    at++
    more.push(`where ${expression(false)}`)
  }
  if (word() === 'group') {
    at++
    take('by')
    const groups: string[] = []
    do {
      if (groups.length > 0) at++
      groups.push(expression(true))
    } while (sign() === ',')
    more.push(`group by ${groups.join(', ')}`)
  }
  if (word() === 'having') {
    at++
    more.push(`having ${expression(false)}`)
  }
  // The order of a view is that of who reads it.
  if (word() === 'order') {
    at++
    take('by')
    do {
      if (sign() === ',') at++
      expression(false)
    } while (sign() === ',')
  }
  if (at < tokens.length) fail()
  return {
    sql: ['select', ...(isDistinct ? ['distinct'] : []), items.join(', '), 'from', ...from, ...more].join(' '),
    names,
  }
}

const isOperandEnd = (token: Token | undefined): boolean =>
  token !== undefined &&
  (token.kind !== 'sign' || token.text === ')') &&
  !(
    token.kind === 'name' &&
    OPERATORS.has(token.text.toLowerCase()) &&
    token.text.toLowerCase() !== 'end' &&
    token.text.toLowerCase() !== 'null'
  )

/** Outside of brackets and texts. */
function hasComma(text: string): boolean {
  let depth = 0
  for (const char of text.replaceAll(/'(?:[^']|'')*'/g, "''")) {
    if (char === '(') depth++
    else if (char === ')') depth--
    else if (char === ',' && depth === 0) return true
  }
  return false
}

function asInSqlite(column: string, field: CollectionField | undefined): string {
  if (!field) return `(${column} collate "C")`
  if (field.isMultiple) throw new ViewError(`${field.name} holds several values`)
  switch (field.type) {
    case 'bool':
      return `${column}::int`
    case 'number':
      return column
    case 'relation':
      return `(coalesce(${column}, '') collate "C")`
    case 'date':
    case 'autodate':
      return `(${HELPERS}.date_text(${column}) collate "C")`
    case 'json':
    case 'geoPoint':
      throw new ViewError(`${field.name} holds JSON`)
    default:
      return `(${column} collate "C")`
  }
}
