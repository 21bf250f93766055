const keep: unique symbol = Symbol()

/** A filter whose values are quoted. Made by `where` and by objects. */
export type Filter = { readonly [keep]: string }

export type FilterValue = string | number | bigint | boolean | Date | null
type Interpolated = FilterValue | readonly FilterValue[] | Filter

const OPERATORS: Readonly<Record<string, string>> = {
  eq: '=',
  ne: '!=',
  gt: '>',
  gte: '>=',
  lt: '<',
  lte: '<=',
  like: '~',
  notLike: '!~',
}

function literal(value: unknown): string {
  if (value instanceof Date) return literal(value.toISOString())
  if (typeof value === 'string') return `'${value.replace(/['\\]/g, '\\$&')}'`
  if (value === null || typeof value === 'boolean' || typeof value === 'bigint' || Number.isFinite(value)) {
    return String(value)
  }
  throw new TypeError(`a filter takes no ${value}`)
}

/** Of no values at all nothing is one. */
const inList = (path: string, values: readonly unknown[]): string => {
  if (values.length > 0) return `${path} IN (${values.map(literal).join(', ')})`
  // Conditions over a relation may be met by two of its rows, so there it would not be false.
  if (path.includes('.')) throw new TypeError(`an empty list for ${path}`)
  return `(${path} = null AND ${path} != null)`
}

// React Native's engine may know no \p{L}: whatever is not ASCII counts as a letter.
const NAME = String.raw`(?:"(?:[^"]|"")*"|[a-z_\u0080-\uffff][\w\u0080-\uffff]*)`
const BEFORE_LIST = new RegExp(String.raw`(${NAME}(?:\.${NAME})*)\s*(?:=|\bIN\b)\s*$`, 'i')

/**
 * A filter as in docs/api.md, in which values are quoted and nothing else can be interpolated: texts, numbers, booleans, null,
 * dates, arrays after IN, and other filters.
 */
export function where(texts: TemplateStringsArray, ...values: readonly Interpolated[]): Filter {
  let filter = texts[0] ?? ''
  for (const [i, value] of values.entries()) {
    if (isFilter(value)) filter += `(${value[keep]})`
    else if (Array.isArray(value)) {
      const before = BEFORE_LIST.exec(filter)
      if (!before?.[1]) throw new TypeError('an array comes after a column and IN')
      filter = filter.slice(0, before.index) + inList(before[1], value)
    } else filter += literal(value)
    filter += texts[i + 1]
  }
  return { [keep]: filter }
}

const isFilter = (value: unknown): value is Filter => typeof value === 'object' && value !== null && keep in value

const nameOf = (name: string): string =>
  /^[a-z_]\w*$/i.test(name) && !/^(and|or|in)$/i.test(name) ? name : `"${name.replaceAll('"', '""')}"`

function conditions(fields: object, prefix: string): string {
  const all = Object.entries(fields).map(([name, value]) => {
    const path = prefix + nameOf(name)
    if (Array.isArray(value))
      return /^(and|or)$/.test(name) ? joined(value, prefix, ` ${name.toUpperCase()} `) : inList(path, value)
    if (typeof value !== 'object' || value === null || value instanceof Date) return `${path} = ${literal(value)}`
    const isOperators = Object.keys(value).every((key) => key === 'in' || Object.hasOwn(OPERATORS, key))
    if (!isOperators) return conditions(value, `${path}.`)
    return Object.entries(value as object)
      .map(([key, operand]) => (key === 'in' ? inList(path, operand) : `${path} ${OPERATORS[key]} ${literal(operand)}`))
      .join(' AND ')
  })
  return all.filter(Boolean).join(' AND ')
}

const joined = (all: readonly unknown[], prefix: string, word: string): string => {
  // An empty filter among alternatives would mean every row, and so would no alternative at all.
  const parts = all.map((one) => textOf(one, prefix))
  if (parts.length === 0 || parts.includes('')) throw new TypeError('an empty filter in and, or')
  return `(${parts.map((part) => `(${part})`).join(word)})`
}

const textOf = (filter: unknown, prefix: string): string =>
  isFilter(filter) ? filter[keep] : conditions(filter as object, prefix)

/** The text of the query parameter. */
export const filterText = (filter: object | undefined): string | undefined =>
  filter && (textOf(filter, '') || undefined)
