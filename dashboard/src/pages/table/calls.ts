import { type Column, fullName, type Table } from '../../api/schema.ts'
import { Digits, exactJson } from '../../parts/exact.ts'
import { text } from '../../parts/format.ts'
import { graphqlObject, graphqlValue, isGraphqlName } from './graphql.ts'
import { otherThan, sampleOf } from './samples.ts'

export type Row = Record<string, unknown>
type Form = readonly [name: string, text: string]
type Call = readonly [title: string, forms: Form[]]
type Values = readonly (readonly [column: Column, value: unknown])[]

const MOST_OPTIONAL = 4

const shell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`
const isGiven = ({ isGenerated, isIdentity }: Column): boolean => isGenerated || isIdentity
/** A name in `sort`, which has no quotes. */
export const isSortable = (name: string): boolean => !name.includes(',') && !/^[-+\s]|\s$/.test(name)

/** JavaScript has no number of so many digits; the API takes them as text too. */
const forClient = (value: unknown): unknown =>
  value instanceof Digits && value.source.replace(/\D/g, '').length > 15 ? value.source : value
const object = (values: Values, each = (value: unknown): unknown => value): Row =>
  Object.fromEntries(values.map(([{ name }, value]) => [name, each(value)]))

/** What a new row is made of, and a change: values of a row, others where a value may be there only once. */
function valuesOf(table: Table, row: Row | undefined): { key: unknown[]; made: Values; changed: Values } {
  const cut = row?.['_cut']
  const known = ({ name }: Column): unknown => (Array.isArray(cut) && cut.includes(name) ? undefined : row?.[name])
  const columnOf = (name: string): Column[] => table.columns.filter((column) => column.name === name)
  const keys = table.primaryKey.flatMap(columnOf)
  const foreign = new Set(table.foreignKeys?.flatMap(({ columns }) => columns))
  const once = new Set(
    [table.primaryKey, ...(table.indexes ?? []).flatMap((index) => (index.isUnique ? [index.columns] : []))].flat(),
  )
  // Of keys that lead to other tables alone, the last one may lead to another row.
  const last = keys.every(({ name }) => foreign.has(name)) ? keys.at(-1)?.name : undefined
  const shownFor = (column: Column): unknown => {
    const value = known(column)
    if (value === undefined || value === null) return sampleOf(column)
    const isOther = once.has(column.name) && (!foreign.has(column.name) || column.name === last)
    return isOther ? otherThan(column, value) : value
  }
  const isLoose = (column: Column): boolean => column.nullable && foreign.has(column.name) && known(column) == null
  const open = table.columns.filter((column) => !isGiven(column) && !isLoose(column))
  const plain = open.filter((column) => column.default === undefined)
  const optional = plain.filter(({ nullable }) => nullable).slice(0, MOST_OPTIONAL)
  const needed = plain.filter((column) => !column.nullable || optional.includes(column))
  // A row takes one value at least, a default or not.
  const made = needed.length > 0 ? needed : [...open, ...keys.filter(({ isGenerated }) => !isGenerated)].slice(0, 1)
  const changeable = open.filter(({ name }) => !table.primaryKey.includes(name))
  const changed = changeable.find(({ name, default: given }) => given === undefined && !once.has(name)) ?? changeable[0]
  const withValue = (column: Column) => [column, shownFor(column)] as const
  return {
    key: keys.map((column) => row?.[column.name] ?? sampleOf(column)),
    made: made.map(withValue),
    changed: changed ? [withValue(changed)] : [],
  }
}

type Given = {
  /** In addresses and for the client. */
  name: string
  table: Table
  row: Row | undefined
  /** In GraphQL, where it has one. */
  field: string | null
  origin: string
}

/** A table's calls, with its own columns and a row of it. Tokens are named, never shown. */
export function callsOf({ name, table, row, field, origin }: Given): Call[] {
  const base = `${origin}/api/collections/${encodeURIComponent(name)}`
  const auth = `-H "Authorization: Bearer $TOKEN"`
  const from = `svc.from(${exactJson(name)})`
  const curl = (method: string, url: string, data?: unknown): Form => [
    'curl',
    [
      `curl${method === 'GET' ? '' : ` -X ${method}`} ${shell(url)} ${auth}`,
      ...(data === undefined ? [] : [`-H 'Content-Type: application/json' -d ${shell(exactJson(data))}`]),
    ].join(' \\\n  '),
  ]
  const graphql = (document: string | null): Form[] => (document === null ? [] : [['GraphQL', document]])

  const fields = table.columns
    .map((column) => column.name)
    .filter(isGraphqlName)
    .slice(0, 5)
  const [first] = table.primaryKey
  const sort = first !== undefined && isSortable(first) ? `&sort=-${encodeURIComponent(first)}` : ''
  const list: Call = [
    'List rows',
    [
      curl('GET', `${base}?perPage=20${sort}`),
      ['client', `const { items } = await ${from}.list({ perPage: 20 })`],
      ...graphql(field && fields.length > 0 ? `{ ${field}(limit: 20) { ${fields.join(' ')} } }` : null),
      ['SQL', `select * from ${fullName(table)} limit 20;`],
    ],
  ]
  if (table.primaryKey.length === 0) return [list]

  const { key, made, changed } = valuesOf(table, row)
  const url = `${base}/${key.map((part) => encodeURIComponent(text(part))).join()}`
  const clientKey = exactJson(key.length === 1 ? forClient(key[0]) : key.map(forClient))
  const written = graphqlObject(made.map(([column, value]) => [column.name, graphqlValue(column, value)]))
  return [
    list,
    ['Read a row', [curl('GET', url), ['client', `const row = await ${from}.get(${clientKey})`]]],
    ...(made.length > 0
      ? [
          [
            'Create a row',
            [
              curl('POST', base, object(made)),
              ['client', `const row = await ${from}.create(${exactJson(object(made, forClient))})`],
              ...graphql(
                field && written ? `mutation { insert_${field}(objects: [${written}]) { affected_rows } }` : null,
              ),
            ],
          ] satisfies Call,
        ]
      : []),
    ...(changed.length > 0
      ? [
          [
            'Change a row',
            [
              curl('PATCH', url, object(changed)),
              ['client', `await ${from}.update(${clientKey}, ${exactJson(object(changed, forClient))})`],
            ],
          ] satisfies Call,
        ]
      : []),
    ['Delete a row', [curl('DELETE', url), ['client', `await ${from}.delete(${clientKey})`]]],
    [
      'Hear of changes',
      [
        ['curl', `curl -N ${shell(`${origin}/api/realtime?tables=${encodeURIComponent(name)}`)} ${auth}`],
        ['client', `const end = ${from}.watch({ onChange: ({ action, record }) => console.log(action, record) })`],
      ],
    ],
  ]
}
