import { Ident } from '../../../db/sql.ts'
import type { Collection, CollectionField } from './collections.ts'
import { type Operand, operandIn, parseRule, type Rule, type RuleComparison, RuleError } from './rule-parser.ts'
import { HELPERS, MACROS } from './sql-functions.ts'

export const quoted = (name: string): string => new Ident(name).quoted
export const literal = (text: string): string =>
  text.includes('\\') ? `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'` : `'${text.replaceAll("'", "''")}'`

type Kind = 'text' | 'number' | 'bool'
/** An operand as SQL. `isMulti`: its joins may give several rows. */
type Value = { sql: string; kind: Kind; isMulti: boolean; constant?: string | number | boolean; isRequest?: true }
type Empty = { kind: 'empty' }

export type World = { byName: ReadonlyMap<string, Collection>; byId: ReadonlyMap<string, Collection> }
export type Compiled = {
  sql: string
  /** It reads other tables, so it must run as the owner of the tables. */
  needsFunction: boolean
  needsBody: boolean
  namesVisitors: boolean
}

type Joins = { list: string[]; known: Map<string, string> }

/**
 * A rule as PocketBase evaluates it: joined tables are left joins shared by the whole rule, `?=` holds when a combination of
 * joined rows satisfies everything, and the other operators also need that none of the rows contradicts.
 */
export function compileRule(
  text: string,
  collection: Collection,
  world: World,
  // How columns of the row are named, and those of what a caller sends.
  places: { row: string; body: string | undefined; isUpdate?: boolean },
): Compiled {
  const rule = parseRule(text)
  const main: Joins = { list: [], known: new Map() }
  let count = 0
  const seen = { body: false, visitors: false, tables: false }

  const join = (joins: Joins, key: string, on: (alias: string) => string): string => {
    const known = joins.known.get(key)
    if (known !== undefined) return known
    const alias = `j${++count}`
    joins.known.set(key, alias)
    joins.list.push(on(alias))
    seen.tables = true
    return alias
  }

  const tableOf = (one: Collection): string => `public.${quoted(one.name)}`
  const column = (row: string, name: string): string => `${row}.${quoted(name)}`

  const fieldOf = (one: Collection, name: string): CollectionField => {
    const field = one.fields.find((candidate) => candidate.name === name)
    if (field) return field
    throw new RuleError(`${one.name}.${name} is no field that a rule can be kept for`)
  }

  const ofField = (
    row: string,
    field: CollectionField,
    modifier: string | undefined,
    joins: Joins,
    key: string,
    isMulti: boolean,
  ): Value => {
    const at = column(row, field.name)
    if (field.isMultiple) {
      if (modifier === 'length') return { sql: `cardinality(${at})::double precision`, kind: 'number', isMulti }
      if (modifier === 'each') {
        const alias = join(joins, `${key}:each`, (name) => `left join lateral unnest(${at}) as ${name}(v) on true`)
        return { sql: `${alias}.v`, kind: 'text', isMulti: true }
      }
      return lowered({ sql: `${HELPERS}.json_text(${at})`, kind: 'text', isMulti }, modifier)
    }
    // Empty there is unknown here; of a row that is not there, everything is unknown on both sides.
    const present = (sql: string): string =>
      row.startsWith('j') ? `case when ${row}.id is not null then ${sql} end` : sql
    const plain = (sql: string, kind: Kind): Value => lowered({ sql, kind, isMulti }, modifier)
    switch (field.type) {
      case 'number':
        return plain(`${at}::double precision`, 'number')
      case 'bool':
        return plain(at, 'bool')
      case 'date':
      case 'autodate':
        return plain(present(`${HELPERS}.date_text(${at})`), 'text')
      case 'relation':
        return plain(present(`coalesce(${at}, '')`), 'text')
      case 'json':
      case 'geoPoint':
        throw new RuleError(`${field.name} holds JSON, which compares in another way here`)
      default:
        return plain(at, 'text')
    }
  }

  const lowered = (value: Value, modifier: string | undefined): Value => {
    if (modifier === undefined) return value
    if (modifier === 'lower' && value.kind === 'text') return { ...value, sql: `lower(${value.sql} collate "C")` }
    throw new RuleError(`:${modifier} cannot be said here`)
  }

  const follow = (
    start: Collection,
    row: string,
    path: readonly string[],
    operand: Operand & { kind: 'path' },
    joins: Joins,
    prefix: string,
    multi: boolean,
  ): Value => {
    let [at, one, isMulti, key] = [row, start, multi, prefix]
    for (const [index, name] of path.entries()) {
      const isLast = index === path.length - 1
      if (isLast && name === 'id') return lowered({ sql: column(at, 'id'), kind: 'text', isMulti }, operand.modifier)
      if (isLast) return ofField(at, fieldOf(one, name), operand.modifier, joins, `${key}.${name}`, isMulti)
      key = `${key}.${name}`
      const from: string = at
      const back = /^(.+)_via_(.+)$/.exec(name)
      const other = back && world.byName.get(back[1] ?? '')
      if (other && !one.fields.some((field) => field.name === name)) {
        const field = fieldOf(other, back[2] ?? '')
        if (field.type !== 'relation' || field.target !== one.id)
          throw new RuleError(`${name} is no relation back to ${one.name}`)
        at = join(
          joins,
          key,
          (alias) =>
            `left join ${tableOf(other)} ${alias} on ${column(from, 'id')} = ${field.isMultiple ? `any (${column(alias, field.name)})` : column(alias, field.name)}`,
        )
        ;[one, isMulti] = [other, true]
        continue
      }
      const field = fieldOf(one, name)
      const part = path[index + 1] ?? ''
      if (field.type === 'geoPoint' && index === path.length - 2 && (part === 'lon' || part === 'lat')) {
        if (operand.modifier !== undefined) throw new RuleError(`:${operand.modifier} cannot be said here`)
        return { sql: `(${column(at, name)} ->> '${part}')::double precision`, kind: 'number', isMulti }
      }
      const target = field.type === 'relation' ? world.byId.get(field.target) : undefined
      if (!target || target.type === 'view') throw new RuleError(`${one.name}.${name} leads to no table`)
      at = join(
        joins,
        key,
        (alias) =>
          `left join ${tableOf(target)} ${alias} on ${column(alias, 'id')} = ${field.isMultiple ? `any (${column(from, field.name)})` : column(from, field.name)}`,
      )
      ;[one, isMulti] = [target, isMulti || field.isMultiple]
    }
    throw new RuleError(`${operand.text} cannot be read`)
  }

  const ofAuth = (path: readonly string[], operand: Operand & { kind: 'path' }, joins: Joins): Value | Empty => {
    const [name = '', ...rest] = path
    const request = (sql: string, kind: Kind): Value =>
      lowered({ sql: `(select ${HELPERS}.${sql})`, kind, isMulti: false, isRequest: true }, operand.modifier)
    if (rest.length === 0) {
      if (name === 'id') return request('auth_id()', 'text')
      if (name === 'collectionName') return request('auth_collection()', 'text')
      if (name === 'verified') return request('auth_verified()', 'bool')
      if (name === 'email') return request('auth_email()', 'text')
    }
    const holders = [...world.byName.values()].filter(
      (one) => one.type === 'auth' && one.fields.some((field) => field.name === name),
    )
    const [only, ...others] = holders
    if (!only) return { kind: 'empty' }
    if (others.length > 0) throw new RuleError(`${operand.text} is a field of several auth collections`)
    const alias = join(
      joins,
      '@auth',
      (as) =>
        `left join ${tableOf(only)} ${as} on ${column(as, 'account_id')} = svc.uid() and ${HELPERS}.auth_collection() = ${literal(only.name)}`,
    )
    return follow(only, alias, path, operand, joins, '@auth', false)
  }

  /** `geoDistance(lonA, latA, lonB, latB)` in km, on a sphere. */
  const distanceOf = (operand: Operand & { kind: 'call' }, joins: Joins): Value => {
    const given = /^geoDistance\(([^()]*)\)$/.exec(operand.text)?.[1]?.split(',') ?? []
    if (given.length !== 4) throw new RuleError(`${operand.text} cannot be said here`)
    const values = given.map((text) => {
      const value = operandOf(operandIn(text.trim()), joins)
      if (value.kind !== 'number') throw new RuleError(`${text.trim()} is no number`)
      return value
    })
    const [lonA, latA, lonB, latB] = values.map(({ sql }) => sql)
    const cosine = `cos(radians(${latA})) * cos(radians(${latB})) * cos(radians(${lonB}) - radians(${lonA})) + sin(radians(${latA})) * sin(radians(${latB}))`
    return { sql: `(6371 * acos(least(1, greatest(-1, ${cosine}))))`, kind: 'number', isMulti: values.some(isMultiple) }
  }

  const operandOf = (operand: Operand, joins: Joins): Value | Empty => {
    if (operand.kind === 'call') return distanceOf(operand, joins)
    if (operand.kind === 'text') {
      if (operand.value === '') return { kind: 'empty' }
      return { sql: literal(operand.value), kind: 'text', isMulti: false, constant: operand.value }
    }
    if (operand.kind === 'number')
      return { sql: `${operand.value}::double precision`, kind: 'number', isMulti: false, constant: operand.value }
    const { path, modifier, text } = operand
    const [first = '', second = '', ...rest] = path
    if (path.length === 1 && modifier === undefined) {
      if (first === 'null') return { kind: 'empty' }
      if (first === 'true' || first === 'false')
        return { sql: first, kind: 'bool', isMulti: false, constant: first === 'true' }
      const macro = MACROS.get(first)
      if (macro) return { ...macro, isMulti: false }
    }
    if (first === '@request' && second === 'auth' && rest.length > 0) {
      seen.visitors = true
      return ofAuth(rest, operand, joins)
    }
    if (first === '@request' && (second === 'body' || second === 'data') && rest.length === 1) {
      const [name = ''] = rest
      if (places.body === undefined) throw new RuleError(`${text} has no meaning where nothing is sent`)
      seen.body = true
      if (modifier === 'isset') throw new RuleError(':isset cannot be known by the database')
      if (modifier === 'changed') {
        if (!places.isUpdate) throw new RuleError(':changed has no meaning for a new record')
        const field = fieldOf(collection, name)
        return {
          sql: `(${column(places.body, field.name)} is distinct from ${column(places.row, field.name)})`,
          kind: 'bool',
          isMulti: false,
        }
      }
      if (name === 'id') return lowered({ sql: column(places.body, 'id'), kind: 'text', isMulti: false }, modifier)
      return ofField(places.body, fieldOf(collection, name), modifier, joins, `@body.${name}`, false)
    }
    if (first === '@collection' && rest.length > 0) {
      const other = world.byName.get(second)
      if (!other || other.type === 'view') throw new RuleError(`${text} names no table`)
      const alias = join(joins, `@collection.${second}`, (as) => `left join ${tableOf(other)} ${as} on true`)
      return follow(other, alias, rest, operand, joins, `@collection.${second}`, true)
    }
    if (first.startsWith('@')) throw new RuleError(`${text} cannot be known by the database`)
    return follow(collection, places.row, path, operand, joins, '', false)
  }

  const compare = (given: RuleComparison, joins: Joins): { sql: string; isMulti: boolean } => {
    const left = operandOf(given.left, joins)
    const right = operandOf(given.right, joins)
    return { sql: comparison(given.operator, left, right), isMulti: isMultiple(left) || isMultiple(right) }
  }

  const build = (one: Rule): string => {
    if (one.kind !== 'comparison') return `(${one.items.map(build).join(one.kind === 'and' ? ' and ' : ' or ')})`
    const { sql, isMulti } = compare(one, main)
    if (one.isAny || !isMulti) return sql
    const own: Joins = { list: [], known: new Map() }
    const again = compare(one, own)
    return `(${sql} and not exists (select from (select 1) o ${own.list.join(' ')} where not ${again.sql}))`
  }

  const expression = build(rule)
  const sql =
    main.list.length > 0 ? `exists (select from (select 1) o ${main.list.join(' ')} where ${expression})` : expression
  return { sql, needsFunction: seen.tables, needsBody: seen.body, namesVisitors: seen.visitors }
}

const isMultiple = (value: Value | Empty): boolean => value.kind !== 'empty' && value.isMulti

/** SQLite finds an unknown value equal to an empty one wherever one of both may be empty. */
function comparison(operator: string, left: Value | Empty, right: Value | Empty): string {
  if (operator === '=' || operator === '!=') return equality(operator === '=', left, right)
  if (left.kind === 'empty' || right.kind === 'empty') {
    throw new RuleError(`${operator} with an empty value cannot be said here`)
  }
  if (operator === '~' || operator === '!~') return likeness(operator === '~', left, right)
  const [a, b] = alike(left, right)
  if (a.kind === 'bool') throw new RuleError(`${operator} between booleans cannot be said here`)
  const collation = a.kind === 'text' ? ' collate "C"' : ''
  return `(${a.sql} ${operator} ${b.sql}${collation})`
}

function equality(isEqual: boolean, left: Value | Empty, right: Value | Empty): string {
  if (left.kind === 'empty' && right.kind === 'empty') return isEqual ? 'true' : 'false'
  if (left.kind === 'empty') return equality(isEqual, right, left)
  if (right.kind === 'empty') {
    const empty = left.kind === 'text' ? `coalesce(${left.sql}, '') = ''` : `${left.sql} is null`
    return isEqual ? `(${empty})` : `(not ${empty.includes(' is null') ? `(${empty})` : empty})`
  }
  const [a, b] = alike(left, right)
  if (a.constant !== undefined || b.constant !== undefined) {
    return isEqual ? `(${a.sql} = ${b.sql})` : `(${a.sql} is distinct from ${b.sql})`
  }
  if (a.kind === 'text') return `(coalesce(${a.sql}, '') ${isEqual ? '=' : '<>'} coalesce(${b.sql}, ''))`
  return `(${a.sql} is ${isEqual ? 'not ' : ''}distinct from ${b.sql})`
}

/** SQLite ignores the case of ASCII letters alone, as lower() of collation C does. */
function likeness(isLike: boolean, left: Value, right: Value): string {
  if (left.kind !== 'text' || right.kind !== 'text') throw new RuleError('~ is for texts')
  const pattern =
    typeof right.constant === 'string' || right.isRequest
      ? `${HELPERS}.like_pattern(${right.sql})`
      : `'%' || ${right.sql} || '%'`
  const sql = `lower(${left.sql} collate "C") like lower((${pattern}) collate "C") escape '\\'`
  return isLike ? `(${sql})` : `(not ${sql})`
}

function alike(left: Value, right: Value): [Value, Value] {
  if (left.kind === right.kind) return [left, right]
  const asBool = (value: Value): Value | undefined =>
    value.kind === 'number' && (value.constant === 0 || value.constant === 1)
      ? { ...value, kind: 'bool', sql: String(value.constant === 1), constant: value.constant === 1 }
      : undefined
  const [a, b] = [asBool(left), asBool(right)]
  if (left.kind === 'bool' && b) return [left, b]
  if (right.kind === 'bool' && a) return [a, right]
  throw new RuleError(`a ${left.kind} and a ${right.kind} compare in another way here`)
}
