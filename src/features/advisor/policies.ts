import type { AdviceItem } from './advice.ts'
import type { PolicyToJudge } from './sql.ts'

/** A policy that calls a function of the operator for each row; inside a subselect it is called once. */
export function policyAdvice({ table, name, ident, using, check, functions }: PolicyToJudge): AdviceItem[] {
  const inEachRow = functions.filter((fn) =>
    [using, check].some((rule) => rule !== null && callsOf(rule, fn).length > 0),
  )
  const [first] = inEachRow
  if (first === undefined) return []
  const once = (rule: string): string => inEachRow.reduce(wrapped, rule)
  const rules = [
    ...(using === null ? [] : [`using (${once(using)})`]),
    ...(check === null ? [] : [`with check (${once(check)})`]),
  ]
  const quoted = `"${name.replaceAll('"', '""')}"`
  const what = `the policy ${name} calls ${first}() for every row`
  return [{ kind: 'policy_function', table, what, sql: `alter policy ${quoted} on ${ident} ${rules.join(' ')}` }]
}

type Called = { readonly start: number; readonly end: number }

/** Where a rule calls a function outside a subselect. */
function callsOf(rule: string, fn: string): Called[] {
  const found: Called[] = []
  const pattern = new RegExp(`(?:[\\w"]+\\.)?"?\\b${fn.replace(/\W/g, '\\$&')}"?\\(`, 'g')
  for (const match of rule.matchAll(pattern)) {
    const end = closing(rule, match.index + match[0].length - 1)
    if (!isInSubselect(rule, match.index)) found.push({ start: match.index, end })
  }
  return found
}

function closing(rule: string, open: number): number {
  let depth = 0
  for (let at = open; at < rule.length; at++) {
    if (rule[at] === '(') depth++
    else if (rule[at] === ')' && --depth === 0) return at + 1
  }
  return rule.length
}

/** Whether an open bracket before this place begins a subselect. */
function isInSubselect(rule: string, at: number): boolean {
  const open: number[] = []
  for (let i = 0; i < at; i++) {
    if (rule[i] === '(') open.push(i)
    else if (rule[i] === ')') open.pop()
  }
  return open.some((place) => /^\(\s*select\b/i.test(rule.slice(place)))
}

function wrapped(rule: string, fn: string): string {
  return callsOf(rule, fn).reduceRight(
    (text, { start, end }) => `${text.slice(0, start)}(select ${text.slice(start, end)})${text.slice(end)}`,
    rule,
  )
}
