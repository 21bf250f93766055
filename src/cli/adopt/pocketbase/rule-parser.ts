/** The grammar of PocketBase's rules: comparisons joined by && and ||, in brackets. */
export type Operand =
  | { kind: 'text'; value: string }
  | { kind: 'number'; value: number }
  | { kind: 'path'; path: readonly string[]; modifier: string | undefined; text: string }
  | { kind: 'call'; name: string; args: readonly Operand[]; text: string }

export type RuleComparison = { kind: 'comparison'; left: Operand; operator: string; isAny: boolean; right: Operand }
export type Rule = RuleComparison | { kind: 'and' | 'or'; items: readonly Rule[] }

export class RuleError extends Error {}

type Token = { kind: 'text' | 'number' | 'path' | 'operator' | 'join' | 'open' | 'close' | 'call'; text: string }

const MAX_DEPTH = 100

const PATTERNS: readonly (readonly [Token['kind'] | undefined, RegExp])[] = [
  [undefined, /\s+|\/\/[^\n]*/y],
  ['join', /&&|\|\|/y],
  ['operator', /\?!=|\?!~|\?<=|\?>=|\?=|\?~|\?<|\?>|!=|!~|<=|>=|=|~|<|>/y],
  ['open', /\(/y],
  ['close', /\)/y],
  ['text', /'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"/sy],
  ['number', /-?\d+(?:\.\d+)?(?![\w.])/y],
  ['call', /[A-Za-z_]\w*\((?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^()'"])*\)/sy],
  ['path', /[@#_A-Za-z][\w.:]*(?:\.[\w:]+)*/y],
]

export function parseRule(text: string): Rule {
  const tokens = tokensOf(text)
  let at = 0
  const take = (kind: Token['kind']): Token => {
    const token = tokens[at]
    if (token?.kind !== kind) throw new RuleError(`the rule cannot be read near “${token?.text ?? 'its end'}”`)
    at++
    return token
  }
  const operand = (): Operand => {
    const token = tokens[at]
    at++
    const found = token && operandOf(token)
    if (found) return found
    throw new RuleError(`the rule cannot be read near “${token?.text ?? 'its end'}”`)
  }
  const one = (depth: number): Rule => {
    if (depth > MAX_DEPTH) throw new RuleError('the rule has too many brackets inside each other')
    if (tokens[at]?.kind === 'open') {
      at++
      const inner = joined(depth + 1)
      take('close')
      return inner
    }
    const left = operand()
    const sign = take('operator').text
    const isAny = sign.startsWith('?')
    return { kind: 'comparison', left, operator: isAny ? sign.slice(1) : sign, isAny, right: operand() }
  }
  const chain = (kind: 'and' | 'or', sign: string, next: () => Rule): Rule => {
    const items = [next()]
    while (tokens[at]?.kind === 'join' && tokens[at]?.text === sign) {
      at++
      items.push(next())
    }
    const [only] = items
    return items.length === 1 && only ? only : { kind, items }
  }
  // As in the SQL that PocketBase makes of it, && binds closer than ||.
  const joined = (depth: number): Rule => chain('or', '||', () => chain('and', '&&', () => one(depth)))
  const rule = joined(0)
  if (at < tokens.length) throw new RuleError(`the rule cannot be read near “${tokens[at]?.text}”`)
  return rule
}

function operandOf({ kind, text }: Token): Operand | undefined {
  if (kind === 'text') return { kind, value: unquoted(text) }
  if (kind === 'number') return { kind, value: Number(text) }
  if (kind === 'path') return pathOf(text)
  if (kind !== 'call') return undefined
  const start = text.indexOf('(')
  return { kind, name: text.slice(0, start), args: argumentsIn(text.slice(start + 1, -1)), text }
}

const ARGUMENT = /\s*('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^,'"\s]+)\s*(?:,|$)/sy

/** Numbers, texts and paths between commas. */
function argumentsIn(text: string): Operand[] {
  const found: Operand[] = []
  ARGUMENT.lastIndex = 0
  while (ARGUMENT.lastIndex < text.length) {
    const [token, ...more] = tokensOf(ARGUMENT.exec(text)?.[1] ?? '')
    const one = token && more.length === 0 ? operandOf(token) : undefined
    if (!one) throw new RuleError(`“${text}” cannot be read`)
    found.push(one)
  }
  return found
}

function tokensOf(text: string): Token[] {
  const tokens: Token[] = []
  let at = 0
  while (at < text.length) {
    let end = at
    for (const [kind, pattern] of PATTERNS) {
      pattern.lastIndex = at
      const found = pattern.exec(text)?.[0]
      if (found === undefined) continue
      if (kind) tokens.push({ kind, text: found })
      end = at + found.length
      break
    }
    if (end === at) throw new RuleError(`the rule cannot be read near “${text.slice(at, at + 20)}”`)
    at = end
  }
  return tokens
}

/** Only the quote itself is escaped; a backslash before anything else stays. */
const unquoted = (text: string): string => text.slice(1, -1).replaceAll(`\\${text[0]}`, text[0] ?? '')

function pathOf(text: string): Operand {
  // `@collection.posts:alias.title` names a join; a colon elsewhere is a modifier at the end.
  const [, start = '', alias, rest = ''] = /^(@collection\.[^.:]+)(:\w+)?(.*)$/s.exec(text) ?? [
    text,
    '',
    undefined,
    text,
  ]
  const [name = '', modifier, ...more] = rest.split(':')
  if (more.length > 0 || modifier?.includes('.')) return { kind: 'path', path: [text], modifier: undefined, text }
  const path = `${start}${name}`.split('.')
  if (alias !== undefined) path[1] = `${path[1] ?? ''}${alias}`
  return { kind: 'path', path, modifier, text }
}
