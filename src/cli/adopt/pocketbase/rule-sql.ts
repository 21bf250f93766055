import { Ident } from '../../../db/sql.ts'
import type { Collection, CollectionField } from './collections.ts'
import { comparison, type EmptyValue, isMultiple, type RuleKind, type RuleValue } from './rule-comparison.ts'
import { distanceInKm, formattedMoment, insideJson } from './rule-functions.ts'
import { type Operand, parseRule, type Rule, type RuleComparison, RuleError } from './rule-parser.ts'
import { HELPERS, MACROS } from './sql-functions.ts'

export const quoted = (name: string): string => new Ident(name).quoted
export const literal = (text: string): string =>
  text.includes('\\') ? `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'` : `'${text.replaceAll("'", "''")}'`

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
  ): RuleValue => {
    const at = column(row, field.name)
    if (field.isMultiple) {
      if (modifier === 'length') return { sql: `cardinality(${at})::double precision`, kind: 'number', isMulti }
      if (modifier === 'each') {
        const alias = join(joins, `${key}:each`, (name) => `left join lateral unnest(${at}) as ${name}(v) on true`)
        return { sql: `${alias}.v`, kind: 'text', isMulti: true }
      }
      return lowered({ sql: `${HELPERS}.json_text(${at})`, kind: 'text', isMulti }, modifier)
    }
    if (['select', 'relation', 'file'].includes(field.type) && (modifier === 'length' || modifier === 'each')) {
      if (modifier === 'each') return ofField(row, field, undefined, joins, key, isMulti)
      return {
        sql: `(case when coalesce(${at}, '') = '' then 0 else 1 end)::double precision`,
        kind: 'number',
        isMulti,
      }
    }
    // An empty value there is unknown here; of a row that is not there, everything is unknown on both sides.
    const present = (sql: string): string =>
      row.startsWith('j') ? `case when ${row}.id is not null then ${sql} end` : sql
    const plain = (sql: string, kind: RuleKind): RuleValue => lowered({ sql, kind, isMulti }, modifier)
    switch (field.type) {
      case 'number':
        return plain(`${at}::double precision`, 'number')
      case 'bool':
        return plain(at, 'bool')
      case 'date':
      case 'autodate':
        return { ...plain(present(`${HELPERS}.date_text(${at})`), 'text'), moment: `(${at} at time zone 'UTC')` }
      case 'relation':
        return plain(present(`coalesce(${at}, '')`), 'text')
      case 'json':
        // What a view selects has a type of its own.
        return plain(collection.type === 'view' ? `to_jsonb(${at})` : at, 'json')
      case 'geoPoint':
        throw new RuleError(`${field.name} is a point, which compares in another way here`)
      default:
        return plain(at, 'text')
    }
  }

  const lowered = (value: RuleValue, modifier: string | undefined): RuleValue => {
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
  ): RuleValue => {
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
      if (field.type === 'json') {
        if (operand.modifier !== undefined) throw new RuleError(`:${operand.modifier} cannot be said here`)
        return { sql: insideJson(column(at, name), field, path.slice(index + 1)), kind: 'json', isMulti }
      }
      if (field.type === 'relation' && !field.isMultiple && part === 'id' && index === path.length - 2)
        return ofField(at, field, operand.modifier, joins, key, isMulti)
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

  const leadsBack = (name: string, to: Collection): boolean => {
    const [, from = '', by = ''] = /^(.+)_via_(.+)$/.exec(name) ?? []
    return world.byName.get(from)?.fields.some((field) => field.name === by && field.target === to.id) === true
  }

  const ofAuth = (
    path: readonly string[],
    operand: Operand & { kind: 'path' },
    joins: Joins,
  ): RuleValue | EmptyValue => {
    const [name = '', ...rest] = path
    const request = (sql: string, kind: RuleKind): RuleValue =>
      lowered({ sql: `(select ${HELPERS}.${sql})`, kind, isMulti: false, isRequest: true }, operand.modifier)
    if (rest.length === 0) {
      if (name === 'id') return request('auth_id()', 'text')
      if (name === 'collectionName') return request('auth_collection()', 'text')
      if (name === 'verified') return request('auth_verified()', 'bool')
      if (name === 'email') return request('auth_email()', 'text')
    }
    const auth = [...world.byName.values()].filter(({ type }) => type === 'auth')
    if (rest.length === 0 && name === 'collectionId') {
      const ids = auth.map((one) => `when ${literal(one.name)} then ${literal(one.id)}`).join(' ')
      return lowered(
        { sql: `(case (select ${HELPERS}.auth_collection()) ${ids} end)`, kind: 'text', isMulti: false },
        operand.modifier,
      )
    }
    const holders = auth.filter((one) => one.fields.some((field) => field.name === name) || leadsBack(name, one))
    const values = holders.map((one) => {
      const alias = join(
        joins,
        `@auth.${one.name}`,
        (as) =>
          `left join ${tableOf(one)} ${as} on ${column(as, 'account_id')} = svc.uid() and ${HELPERS}.auth_collection() = ${literal(one.name)}`,
      )
      return follow(one, alias, path, operand, joins, `@auth.${one.name}`, false)
    })
    const [only, ...others] = values
    if (!only) return { kind: 'empty', isNull: true }
    if (others.length === 0) return only
    // The caller is of one of them, and of the others every value is unknown.
    if (others.some(({ kind }) => kind !== only.kind))
      throw new RuleError(`${operand.text} has different types in several auth collections`)
    const cases = values.map(({ sql }, index) => `when ${literal(holders[index]?.name ?? '')} then ${sql}`).join(' ')
    return {
      sql: `(case ${HELPERS}.auth_collection() ${cases} end)`,
      kind: only.kind,
      isMulti: values.some(isMultiple),
    }
  }

  const called = (operand: Operand & { kind: 'call' }, joins: Joins): RuleValue => {
    const values = operand.args.map((one) => operandOf(one, joins))
    if (operand.name === 'geoDistance' && values.length === 4) {
      const [lonA = '', latA = '', lonB = '', latB = ''] = values.map((value) => {
        if (value.kind !== 'number') throw new RuleError(`${operand.text} is not of numbers`)
        return value.sql
      })
      // One of several rows is enough, whatever the operator.
      return { sql: distanceInKm(lonA, latA, lonB, latB), kind: 'number', isMulti: false }
    }
    const [format, time] = values
    if (
      operand.name === 'strftime' &&
      values.length === 2 &&
      format &&
      time &&
      format.kind === 'text' &&
      time.kind === 'text'
    ) {
      if (typeof format.constant !== 'string' || time.moment === undefined)
        throw new RuleError(`${operand.text} is not of a format and a date`)
      return { sql: formattedMoment(format.constant, time.moment), kind: 'text', isMulti: time.isMulti }
    }
    throw new RuleError(`${operand.text} cannot be said here`)
  }

  const operandOf = (operand: Operand, joins: Joins): RuleValue | EmptyValue => {
    if (operand.kind === 'call') return called(operand, joins)
    if (operand.kind === 'text') {
      if (operand.value === '') return { kind: 'empty', isNull: false }
      return { sql: literal(operand.value), kind: 'text', isMulti: false, constant: operand.value }
    }
    if (operand.kind === 'number')
      return { sql: `${operand.value}::double precision`, kind: 'number', isMulti: false, constant: operand.value }
    const { path, modifier, text } = operand
    const [first = '', second = '', ...rest] = path
    if (path.length === 1 && modifier === undefined) {
      const word = collection.fields.some(({ name }) => name === first) ? '' : first.toLowerCase()
      if (word === 'null') return { kind: 'empty', isNull: true }
      if (word === 'true' || word === 'false')
        return { sql: word, kind: 'bool', isMulti: false, constant: word === 'true' }
      const macro = MACROS.get(first)
      if (macro)
        return { ...macro, isMulti: false, ...(macro.kind === 'text' && { moment: `(${macro.sql})::timestamp` }) }
    }
    if (first === '@request' && second === 'auth' && rest.length > 0) {
      seen.visitors = true
      return ofAuth(rest, operand, joins)
    }
    if (first === '@request' && (second === 'body' || second === 'data') && rest.length > 0) {
      const [name = ''] = rest
      if (places.body === undefined) throw new RuleError(`${text} has no meaning where nothing is sent`)
      seen.body = true
      if (rest.length > 1) return follow(collection, places.body, rest, operand, joins, '@body', false)
      if (modifier === 'isset')
        throw new RuleError('the database cannot know what was sent, as :isset needs; :changed it can')
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
      // `name:alias` is a join of its own.
      const [name = ''] = second.split(':')
      const other = world.byName.get(name) ?? world.byId.get(name)
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
