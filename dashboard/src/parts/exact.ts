/** A number as the database wrote it, where JavaScript would write it otherwise: 1.50, 1e-07, 9007199254740993. */
export class Digits {
  readonly source: string

  constructor(source: string) {
    this.source = source
  }

  toString(): string {
    return this.source
  }

  /** For comparisons; what is sent goes through `exactJson`. */
  toJSON(): string {
    return this.source
  }
}

/** Of answers: what holds rows, which are no values themselves. */
const CONTAINERS = new Set(['items', 'results', 'rows'])

/** What an object was read from: the order of its keys, those that come twice and its spaces are part of a `json`. */
const sources = new WeakMap<object, string>()

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const SPACE = /[ \t\n\r]*/y
const LITERALS: readonly [string, unknown][] = [
  ['null', null],
  ['true', true],
  ['false', false],
]

/**
 * As JSON.parse, but nothing of what the database wrote is lost: `text()` gives each part back as it was. `isAnswer`: of the
 * server, where rows lie in lists; the texts of rows themselves are not kept.
 */
export function parseExact(text: string, isAnswer = false): unknown {
  let at = 0
  const fail = (): never => {
    // With the words of the engine, and the place.
    JSON.parse(text)
    throw new SyntaxError(`unexpected end at ${at}`)
  }
  const space = (): void => {
    if (text.charCodeAt(at) > 32) return
    SPACE.lastIndex = at
    SPACE.test(text)
    at = SPACE.lastIndex
  }
  function string(): string {
    const begin = at
    for (let end = text.indexOf('"', at + 1); end >= 0; end = text.indexOf('"', end + 1)) {
      let slashes = 0
      while (text[end - 1 - slashes] === '\\') slashes++
      if (slashes % 2 === 1) continue
      at = end + 1
      return JSON.parse(text.slice(begin, at)) as string
    }
    return fail()
  }
  function list(isContainer: boolean): unknown[] {
    const items: unknown[] = []
    at++
    space()
    if (text[at] === ']') {
      at++
      return items
    }
    for (;;) {
      items.push(value(isContainer, true))
      space()
      const end = text[at++]
      if (end === ']') return items
      if (end !== ',') fail()
    }
  }
  function record(isContainer: boolean): object {
    const found: Record<string, unknown> = {}
    at++
    space()
    if (text[at] === '}') {
      at++
      return found
    }
    for (;;) {
      space()
      if (text[at] !== '"') fail()
      const key = string()
      space()
      if (text[at++] !== ':') fail()
      const given = value(isContainer && CONTAINERS.has(key))
      if (key === '__proto__') Object.defineProperty(found, key, { value: given, enumerable: true, configurable: true })
      else found[key] = given
      space()
      const end = text[at++]
      if (end === '}') return found
      if (end !== ',') fail()
    }
  }
  /** `isContainer`: the answer itself, and lists and rows on the way to values. A list in a list is a row of SQL. */
  function value(isContainer: boolean, isInList = false): unknown {
    space()
    const begin = at
    const first = text[at]
    if (first === '"') return string()
    if (first === '{' || first === '[') {
      const made = first === '{' ? record(isContainer) : list(isContainer && !isInList)
      if (!isContainer) sources.set(made, text.slice(begin, at))
      return made
    }
    for (const [word, meaning] of LITERALS) {
      if (!text.startsWith(word, at)) continue
      at += word.length
      return meaning
    }
    NUMBER.lastIndex = at
    const source = NUMBER.exec(text)?.[0] ?? fail()
    at += source.length
    const number = Number(source)
    return String(number) === source ? number : new Digits(source)
  }
  const whole = value(isAnswer)
  space()
  if (at < text.length) fail()
  return whole
}

/** A value as it was read. */
export const sourceOf = (value: object): string | undefined =>
  value instanceof Digits ? value.source : sources.get(value)

/** JSON in which every number and object that was read stands as it was. */
export function exactJson(given: unknown): string {
  const tag = `~${crypto.randomUUID()}~`
  const kept: string[] = []
  const keep = (source: string): string => `${tag}${kept.push(source) - 1}`
  const text = JSON.stringify(given, function (this: Record<string, unknown>, key, part: unknown) {
    // `part` has been through toJSON.
    const held = this[key]
    const source = typeof held === 'object' && held !== null ? sourceOf(held) : undefined
    return source === undefined ? part : keep(source)
  })
  return kept.length === 0 ? text : text.replaceAll(new RegExp(`"${tag}(\\d+)"`, 'g'), (_, at) => kept[at] ?? '')
}

/** The same JSON over several lines; keys keep their order. */
export function prettyJson(text: string): string {
  const tokens = text.match(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? []
  let depth = 0
  let out = ''
  tokens.forEach((token, index) => {
    const line = `\n${'  '.repeat(Math.max(0, depth - 1))}`
    if (token === '}' || token === ']') {
      depth--
      out += (tokens[index - 1] === '{' || tokens[index - 1] === '[' ? '' : line) + token
    } else if (token === '{' || token === '[') {
      depth++
      const isEmpty = tokens[index + 1] === '}' || tokens[index + 1] === ']'
      out += isEmpty ? token : `${token}\n${'  '.repeat(depth)}`
    } else if (token === ',') out += `,\n${'  '.repeat(depth)}`
    else out += token === ':' ? ': ' : token
  })
  return out
}
