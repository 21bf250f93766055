import { badRequest, type FieldErrors } from '../../../core/errors.ts'
import type { Slot, Slots, Value } from '../../sql.ts'

/**
 * A parsed filter; names are not yet checked against a table. Literals are the client's text or, in a shared statement,
 * slots.
 */
export type Filter =
  | { readonly kind: 'and' | 'or'; readonly parts: readonly Filter[] }
  | ({
      readonly kind: 'compare'
      readonly path: Path
      readonly op: CompareOp
      readonly value: string | Slot
    } & MaybeFractional)
  | { readonly kind: 'null'; readonly path: Path; readonly negated: boolean }
  | ({ readonly kind: 'in'; readonly path: Path; readonly values: readonly string[] | Slot } & MaybeFractional)

/** A number among the literals has a fraction or an exponent. */
export type MaybeFractional = { readonly fractional?: true }

/** Relation names, then the column. */
export type Path = readonly [string, ...string[]]
export type CompareOp = '=' | '!=' | '>' | '>=' | '<' | '<=' | '~' | '!~'

const MAX_LENGTH = 10_000
const MAX_DEPTH = 50
/** Relations in a path. */
const MAX_HOPS = 3
/** Relations in a filter: PostgreSQL plans them together, in a time that grows with the third power of their number. */
const MAX_RELATIONS = 50

type Kind = 'name' | 'quoted' | 'string' | 'number' | 'op' | 'symbol' | 'end'
type Token = { kind: Kind; text: string; value: string; at: number }

const NAME = /[\p{L}_][\p{L}\p{N}_]*/uy
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const SPACES = ' \t\r\n'
const OPERATOR_STARTS = '=!<>~'
const SYMBOL = /&&|\|\||!=|>=|<=|!~|[=<>~(),.]/y

export const invalidFilter = (reason: string, details?: { data?: FieldErrors }) =>
  badRequest(`invalid filter: ${reason}`, 'invalid_filter', details)

/** `undefined` for a blank filter. One pass over the text, so the time is linear in its length. */
export function parseFilter(text: string, slots?: Slots): Filter | undefined {
  if (text === '') return undefined
  if (text.length > MAX_LENGTH) throw invalidFilter('too long')
  const tokens = tokenize(text)
  return tokens.length === 1 ? undefined : new Parser(tokens, slots).whole()
}

function tokenize(text: string): Token[] {
  const tokens: Token[] = []
  let at = 0
  const push = (kind: Kind, raw: string, value = raw) => {
    tokens.push({ kind, text: raw, value, at })
    at += raw.length
  }
  while (at < text.length) {
    const char = text.charAt(at)
    if (SPACES.includes(char)) at++
    else if (char === "'") {
      const { raw, value } = readString(text, at)
      push('string', raw, value)
    } else if (char === '"') {
      const { raw, value } = readQuotedName(text, at)
      push('quoted', raw, value)
    } else {
      const [kind, raw] = readWord(text, at)
      push(kind, raw)
    }
  }
  tokens.push({ kind: 'end', text: 'end of filter', value: '', at })
  return tokens
}

function readWord(text: string, at: number): [kind: Kind, raw: string] {
  const code = text.charCodeAt(at)
  if (isDigit(code) || code === 0x2d) {
    const number = matched(NUMBER, text, at)
    if (number !== undefined) return ['number', number]
  } else {
    const end = endOfName(text, at)
    if (end > at) return ['name', text.slice(at, end)]
    const symbol = matched(SYMBOL, text, at)
    if (symbol !== undefined) return [OPERATOR_STARTS.includes(symbol.charAt(0)) ? 'op' : 'symbol', symbol]
  }
  throw unexpected(String.fromCodePoint(text.codePointAt(at) ?? 0), at)
}

function matched(pattern: RegExp, text: string, at: number): string | undefined {
  pattern.lastIndex = at
  return pattern.exec(text)?.[0]
}

const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39
const isLetter = (code: number): boolean => (code >= 0x61 && code <= 0x7a) || (code >= 0x41 && code <= 0x5a)

/** Nearly all names are ASCII, which needs no Unicode regular expression. */
function endOfName(text: string, at: number): number {
  let end = at
  for (let code = text.charCodeAt(end); ; code = text.charCodeAt(++end)) {
    if (code > 127) return at + (matched(NAME, text, at)?.length ?? 0)
    if (!isLetter(code) && code !== 0x5f && (end === at || !isDigit(code))) return end
  }
}

/** `\'` and `''` mean a quote, `\\` a backslash; any other backslash is an error. */
function readString(text: string, start: number): { raw: string; value: string } {
  let value = ''
  for (let i = start + 1; i < text.length; i++) {
    const char = text[i]
    const next = text[i + 1]
    if (char === '\0') throw unexpected('\\u0000', i)
    if (char === '\\') {
      if (next === undefined) break
      if (next !== "'" && next !== '\\') throw unexpected('\\', i)
      value += next
      i++
    } else if (char !== "'") value += char
    else if (next === "'") {
      value += "'"
      i++
    } else return { raw: text.slice(start, i + 1), value }
  }
  throw invalidFilter('unterminated string')
}

function readQuotedName(text: string, start: number): { raw: string; value: string } {
  let value = ''
  for (let i = start + 1; i < text.length; i++) {
    if (text[i] !== '"') value += text[i]
    else if (text[i + 1] === '"') {
      value += '"'
      i++
    } else return { raw: text.slice(start, i + 1), value }
  }
  throw invalidFilter('unterminated string')
}

/** Positions count characters from 1. */
const unexpected = (what: string, at: number) => invalidFilter(`unexpected "${what}" at position ${at + 1}`)

const isWord = (token: Token, word: string) => token.kind === 'name' && token.text.toUpperCase() === word

class Parser {
  readonly #tokens: readonly Token[]
  readonly #slots: Slots | undefined
  /** Of the literals of the current condition. */
  #isFractional = false
  #next = 0
  #depth = 0
  #relations = 0

  constructor(tokens: readonly Token[], slots: Slots | undefined) {
    this.#tokens = tokens
    this.#slots = slots
  }

  whole(): Filter {
    const filter = this.#or()
    const rest = this.#take()
    if (rest.kind !== 'end') throw unexpected(rest.text, rest.at)
    return filter
  }

  #or(): Filter {
    return this.#chain('or', 'OR', '||', () => this.#and())
  }

  #and(): Filter {
    return this.#chain('and', 'AND', '&&', () => this.#unit())
  }

  #chain(kind: 'and' | 'or', word: string, symbol: string, part: () => Filter): Filter {
    const first = part()
    const parts = [first]
    for (let token = this.#peek(); isWord(token, word) || token.text === symbol; token = this.#peek()) {
      this.#take()
      parts.push(part())
    }
    return parts.length === 1 ? first : { kind, parts }
  }

  #unit(): Filter {
    if (this.#peek().text !== '(' || this.#peek().kind !== 'symbol') return this.#condition()
    if (++this.#depth > MAX_DEPTH) throw invalidFilter('nested too deeply')
    this.#take()
    const inner = this.#or()
    this.#expect(')')
    this.#depth--
    return inner
  }

  #condition(): Filter {
    const path = this.#path()
    const token = this.#take()
    this.#isFractional = false
    if (isWord(token, 'IN')) {
      const values = this.#slotOrLiteral(this.#list())
      return this.#isFractional ? { kind: 'in', path, values, fractional: true } : { kind: 'in', path, values }
    }
    if (token.kind !== 'op') throw unexpected(token.text, token.at)
    const op = token.text as CompareOp
    if (!isWord(this.#peek(), 'NULL')) {
      const value = this.#slotOrLiteral(this.#literal())
      return this.#isFractional
        ? { kind: 'compare', path, op, value, fractional: true }
        : { kind: 'compare', path, op, value }
    }
    this.#take()
    if (op !== '=' && op !== '!=') throw invalidFilter('null requires = or !=')
    return { kind: 'null', path, negated: op === '!=' }
  }

  #slotOrLiteral<Literal extends Value>(literal: Literal): Literal | Slot {
    return this.#slots?.put(literal) ?? literal
  }

  #path(): Path {
    const first = this.#name()
    if (['AND', 'OR', 'IN'].some((word) => isWord(first, word))) throw unexpected(first.text, first.at)
    const path: [string, ...string[]] = [first.value]
    while (this.#peek().text === '.') {
      this.#take()
      path.push(this.#name().value)
    }
    if (path.length > MAX_HOPS + 1) throw invalidFilter('nested too deeply')
    this.#relations += path.length - 1
    if (this.#relations > MAX_RELATIONS) throw invalidFilter(`more than ${MAX_RELATIONS} relations`)
    return path
  }

  #name(): Token {
    const token = this.#take()
    if (token.kind !== 'name' && token.kind !== 'quoted') throw unexpected(token.text, token.at)
    return token
  }

  #list(): string[] {
    this.#expect('(')
    const values = [this.#listItem()]
    while (this.#peek().text === ',') {
      this.#take()
      values.push(this.#listItem())
    }
    this.#expect(')')
    return values
  }

  #listItem(): string {
    if (isWord(this.#peek(), 'NULL')) throw invalidFilter('null requires = or !=')
    return this.#literal()
  }

  #literal(): string {
    const token = this.#take()
    if (token.kind === 'number' && !/^-?\d+$/.test(token.value)) this.#isFractional = true
    if (token.kind === 'string' || token.kind === 'number') return token.value
    if (isWord(token, 'TRUE') || isWord(token, 'FALSE')) return token.text.toLowerCase()
    throw unexpected(token.text, token.at)
  }

  #expect(symbol: string): void {
    const token = this.#take()
    if (token.kind !== 'symbol' || token.text !== symbol) throw unexpected(token.text, token.at)
  }

  #peek(): Token {
    return this.#tokens[this.#next] as Token
  }

  /** Stays at the end token. */
  #take(): Token {
    const token = this.#peek()
    if (token.kind !== 'end') this.#next++
    return token
  }
}
