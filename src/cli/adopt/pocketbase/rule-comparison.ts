import { jsonEquality } from './rule-functions.ts'
import { RuleError } from './rule-parser.ts'
import { HELPERS } from './sql-functions.ts'

export type RuleKind = 'text' | 'number' | 'bool' | 'json'
/** An operand as SQL. `isMulti`: its joins may give several rows. `moment`: the same as a timestamp of UTC. */
export type RuleValue = {
  sql: string
  kind: RuleKind
  isMulti: boolean
  constant?: string | number | boolean
  isRequest?: true
  moment?: string
}
/** `null`, or a text without characters. */
export type EmptyValue = { kind: 'empty'; isNull: boolean }

export const isMultiple = (value: RuleValue | EmptyValue): boolean => value.kind !== 'empty' && value.isMulti

/** SQLite finds an unknown value equal to an empty one wherever one of both may be empty. */
export function comparison(operator: string, left: RuleValue | EmptyValue, right: RuleValue | EmptyValue): string {
  if (operator === '=' || operator === '!=') return equality(operator === '=', left, right)
  if (left.kind === 'empty' || right.kind === 'empty') {
    throw new RuleError(`${operator} with an empty value cannot be said here`)
  }
  if (operator === '~' || operator === '!~') return likeness(operator === '~', left, right)
  const [a, b] = alike(left, right)
  if (a.kind === 'json') throw new RuleError(`${operator} with a value of JSON cannot be said here`)
  if (a.kind === 'bool') throw new RuleError(`${operator} between booleans cannot be said here`)
  const collation = a.kind === 'text' ? ' collate "C"' : ''
  return `(${a.sql} ${operator} ${b.sql}${collation})`
}

function equality(isEqual: boolean, left: RuleValue | EmptyValue, right: RuleValue | EmptyValue): string {
  if (left.kind === 'empty' && right.kind === 'empty') return isEqual ? 'true' : 'false'
  if (left.kind === 'empty') return equality(isEqual, right, left)
  if (left.kind === 'json' || right.kind === 'json') {
    const [json, other] = left.kind === 'json' ? [left, right] : [right as RuleValue, left]
    const constant = other.kind === 'empty' ? (other.isNull ? null : '') : other.constant
    if (constant === undefined || other.kind === 'json')
      throw new RuleError('a value of JSON compares in another way here, except with a constant')
    return jsonEquality(isEqual, json.sql, constant)
  }
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
function likeness(isLike: boolean, left: RuleValue, right: RuleValue): string {
  if (left.kind !== 'text' || right.kind !== 'text') throw new RuleError('~ is for texts')
  const pattern =
    typeof right.constant === 'string' || right.isRequest
      ? `${HELPERS}.like_pattern(${right.sql})`
      : `'%' || ${right.sql} || '%'`
  const sql = `lower(${left.sql} collate "C") like lower((${pattern}) collate "C") escape '\\'`
  return isLike ? `(${sql})` : `(not ${sql})`
}

function alike(left: RuleValue, right: RuleValue): [RuleValue, RuleValue] {
  if (left.kind === right.kind) return [left, right]
  const asBool = (value: RuleValue): RuleValue | undefined =>
    value.kind === 'number' && (value.constant === 0 || value.constant === 1)
      ? { ...value, kind: 'bool', sql: String(value.constant === 1), constant: value.constant === 1 }
      : undefined
  const [a, b] = [asBool(left), asBool(right)]
  if (left.kind === 'bool' && b) return [left, b]
  if (right.kind === 'bool' && a) return [a, right]
  throw new RuleError(`a ${left.kind} and a ${right.kind} compare in another way here`)
}
