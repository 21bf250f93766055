import type { DatabaseSession } from '../../../core/identity.ts'
import type { Policy, Table } from '../../../db/schema/snapshot.ts'

/**
 * What a column is in every row that a policy lets a caller see: the caller's id, or one of what a query of its own answers,
 * which reads nothing of the row.
 */
export type Condition = { readonly column: string; readonly query: string | undefined }

// Deparsed by PostgreSQL, which puts parentheses around every operator: `(owner = svc.uid())`, `(owner = ( SELECT svc.uid() AS uid))`,
// `(team IN ( SELECT m.team FROM members m WHERE (m.person = svc.uid())))`, `(EXISTS ( SELECT 1 FROM … WHERE (…)))`.
const UID = String.raw`(?:svc\.uid\(\)|\( SELECT svc\.uid\(\) AS uid\))`
const NAME = '([a-z_][a-z0-9_$]*)'
const EQUAL = [new RegExp(`^${NAME} = ${UID}$`), new RegExp(`^${UID} = ${NAME}$`)]
const IN = [
  new RegExp(String.raw`^${NAME} IN \(( SELECT\s.*)\)$`, 's'),
  new RegExp(String.raw`^${NAME} = ANY \(ARRAY\(( SELECT\s.*)\)\)$`, 's'),
]
const OF_ORGANIZATIONS = new RegExp(
  String.raw`^${NAME} = ANY \((?:svc\.org_ids\(\)|\( SELECT svc\.org_ids\(\) AS org_ids\)::uuid\[\])\)$`,
)
/** Its columns are names and constants: a function among them might be an aggregate, which answers a row in any case. */
const EXISTS = /^EXISTS \( SELECT\s[\w\s.,]*?\sFROM\s(.*?)\sWHERE (\(.*\))\)$/s
const JOINED = new RegExp(String.raw`^(\w+\.\w+) = (\w+)\.${NAME}$`)

/** Where the text is divided by this word, outside of parentheses and quotes. */
function split(text: string, word: ' AND ' | ' OR '): string[] {
  const parts: string[] = []
  let [depth, from, quote] = [0, 0, '']
  for (let at = 0; at < text.length; at++) {
    const char = text[at] ?? ''
    if (quote) quote = char === quote ? '' : quote
    else if (char === "'" || char === '"') quote = char
    else if (char === '(') depth++
    else if (char === ')') depth--
    else if (depth === 0 && text.startsWith(word, at)) {
      parts.push(text.slice(from, at))
      from = at + word.length
    }
  }
  return [...parts, text.slice(from)]
}

/** Without the parentheses around all of it. */
function unwrapped(text: string): string {
  return isWrapped(text) ? unwrapped(text.slice(1, -1)) : text
}

function isWrapped(text: string): boolean {
  let [depth, quote] = [0, '']
  for (let at = 0; at < text.length; at++) {
    const char = text[at] ?? ''
    if (quote) quote = char === quote ? '' : quote
    else if (char === "'" || char === '"') quote = char
    else if (char === '(') depth++
    else if (char === ')' && --depth === 0) return text.startsWith('(') && at === text.length - 1
  }
  return false
}

/** Conditions of which each row that it holds for fulfils one. Undefined: it is not understood. */
function conditionsOf(expression: string, table: string): Condition[] | undefined {
  const text = unwrapped(expression)
  const alternatives = split(text, ' OR ')
  if (alternatives.length > 1) return eachOf(alternatives.map((part) => conditionsOf(part, table)))
  const parts = split(text, ' AND ')
  if (parts.length > 1) return bestOf(parts.map((part) => conditionsOf(part, table)))
  for (const form of EQUAL) {
    const column = form.exec(text)?.[1]
    if (column !== undefined) return [{ column, query: undefined }]
  }
  for (const form of IN) {
    const [, column, query] = form.exec(text) ?? []
    if (column !== undefined && query !== undefined && isWrapped(`(${query})`)) return [{ column, query }]
  }
  const ofOrganizations = OF_ORGANIZATIONS.exec(text)?.[1]
  if (ofOrganizations) return [{ column: ofOrganizations, query: 'select pg_catalog.unnest(svc.org_ids())' }]
  return existing(text, table)
}

/** Something exists that has the same value as the row: the row's value is one of those that this has. */
function existing(text: string, table: string): Condition[] | undefined {
  const [, from, where = ''] = EXISTS.exec(text) ?? []
  if (from === undefined || !isWrapped(where)) return undefined
  const parts = split(unwrapped(where), ' AND ').map(unwrapped)
  for (const part of parts) {
    const [one = '', other = ''] = part.split(' = ')
    for (const equation of [part, `${other} = ${one}`]) {
      const [, value, owner, column] = JOINED.exec(equation) ?? []
      if (value === undefined || owner !== table || column === undefined) continue
      const rest = parts.filter((each) => each !== part).map((each) => `(${each})`)
      return [{ column, query: `select ${value} from ${from.trim()} where ${[...rest, 'true'].join(' and ')}` }]
    }
  }
  return undefined
}

const eachOf = (all: readonly (Condition[] | undefined)[]): Condition[] | undefined =>
  all.every((one) => one !== undefined) ? all.flat() : undefined

/** One is enough; best is one that needs no query. */
function bestOf(all: readonly (Condition[] | undefined)[]): Condition[] | undefined {
  const known = all.filter((one) => one !== undefined)
  return known.find((one) => one.every(({ query }) => query === undefined)) ?? known[0]
}

const inTable = ({ usingExpr }: Policy, { name }: Table): Condition[] | undefined => conditionsOf(usingExpr ?? '', name)

const found = new WeakMap<Table, { readonly conditions: Condition[] | undefined }>()

/**
 * Conditions of which each row that the caller may see fulfils one, as most policies are written: what others write is then
 * excluded without PostgreSQL. A policy that is not understood excludes nothing. One without roles is for all.
 */
export function conditionsByPolicy(table: Table, { role }: DatabaseSession): readonly Condition[] | undefined {
  if (role === 'none' || !table.rlsEnabled) return undefined
  const known = found.get(table)
  if (known) return known.conditions
  const reading = table.rlsPolicies.filter(({ command }) => command === 'SELECT' || command === 'ALL')
  const permissive = reading.filter((one) => one.permissive)
  const restrictive = reading.filter((one) => !one.permissive && one.roles.length === 0)
  const always = permissive.length === 0 ? undefined : eachOf(permissive.map((one) => inTable(one, table)))
  const conditions = bestOf([always, ...restrictive.map((one) => inTable(one, table))])
  found.set(table, { conditions })
  return conditions
}
