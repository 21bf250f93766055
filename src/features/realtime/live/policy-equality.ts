import type { DatabaseSession } from '../../../core/identity.ts'
import { isComparable } from '../../../db/rows/live-query.ts'
import type { Policy, Table } from '../../../db/schema/snapshot.ts'

// Deparsed by PostgreSQL: `(owner = svc.uid())`, `(owner = ( SELECT svc.uid() AS uid))`, or the other way round.
const UID = String.raw`(?:svc\.uid\(\)|\( SELECT svc\.uid\(\) AS uid\))`
const NAME = '([a-z_][a-z0-9_$]*)'
const EQUAL = [new RegExp(`^${NAME} = ${UID}$`), new RegExp(`^${UID} = ${NAME}$`)]

/** The parts of a conjunction, without the parentheses around them. */
function conjuncts(expression: string): string[] {
  const inner = unwrapped(expression)
  const parts: string[] = []
  let depth = 0
  let from = 0
  for (let at = 0; at < inner.length; at++) {
    const char = inner[at]
    if (char === "'" || char === '"') return [inner]
    if (char === '(') depth++
    else if (char === ')') depth--
    else if (depth === 0 && inner.startsWith(' AND ', at)) {
      parts.push(inner.slice(from, at))
      from = at + 5
    } else if (depth === 0 && inner.startsWith(' OR ', at)) return [inner]
  }
  parts.push(inner.slice(from))
  return parts.length > 1 ? parts.flatMap(conjuncts) : parts
}

function unwrapped(text: string): string {
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '(') depth++
    else if (text[at] === ')' && --depth === 0) {
      return text.startsWith('(') && at === text.length - 1 ? unwrapped(text.slice(1, -1)) : text
    }
  }
  return text
}

/** Columns that a policy compares with the caller's id. */
const columnsIn = ({ usingExpr }: Policy): string[] =>
  conjuncts(usingExpr ?? '').flatMap((part) => EQUAL.flatMap((form) => form.exec(part)?.[1] ?? []))

/**
 * Columns whose value is the caller's id in every row that it may see, as most policies are written: what others write is
 * then excluded without PostgreSQL. A policy that is not understood excludes nothing. One without roles is for all.
 */
export function equalByPolicy({ rlsEnabled, rlsPolicies, columns }: Table, session: DatabaseSession): string[] {
  if (session.role === 'none' || !rlsEnabled) return []
  const reading = rlsPolicies.filter(({ command }) => command === 'SELECT' || command === 'ALL')
  const [first, ...others] = reading.filter(({ permissive }) => permissive)
  const restrictive = reading.filter(({ permissive, roles }) => !permissive && roles.length === 0)
  const always = (first ? columnsIn(first) : []).filter((name) => others.every((one) => columnsIn(one).includes(name)))
  return [...always, ...restrictive.flatMap(columnsIn)].filter((name) => {
    const column = columns.get(name)
    return column !== undefined && isComparable(column, session.userId)
  })
}
