/**
 * Where the parts of a JSON text stand. JavaScript numbers would lose digits of bigint and numeric values, so values
 * are cut out of the text and handed to PostgreSQL as the client wrote them. The text must be known to be valid JSON.
 */

const QUOTE = 0x22
const COMMA = 0x2c
const BACKSLASH = 0x5c
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d

/** The texts of an array's elements. */
export function elementTexts(text: string): string[] {
  const texts: string[] = []
  let at = skipSpace(text, skipSpace(text, 0) + 1)
  while (at < text.length && text.charCodeAt(at) !== CLOSE_BRACKET) {
    const end = skipValue(text, at)
    texts.push(text.slice(at, end))
    at = skipComma(text, end)
  }
  return texts
}

/**
 * The texts of an object's members of these names; of a name that stands twice the last one counts, as in JSON.parse.
 * Escaped spellings of a name are that name too.
 */
export function memberTexts(text: string, names: readonly string[]): (string | undefined)[] {
  const texts: (string | undefined)[] = names.map(() => undefined)
  let at = skipSpace(text, skipSpace(text, 0) + 1)
  while (at < text.length && text.charCodeAt(at) !== CLOSE_BRACE) {
    const nameEnd = skipString(text, at)
    const value = skipSpace(text, skipSpace(text, nameEnd) + 1)
    const end = skipValue(text, value)
    for (let i = 0; i < names.length; i++) {
      if (isName(text, at, nameEnd, names[i] as string)) texts[i] = text.slice(value, end)
    }
    at = skipComma(text, end)
  }
  return texts
}

/** Compared in place: cutting out every name would cost more than all the rest. */
function isName(text: string, start: number, end: number, name: string): boolean {
  if (end - start - 2 === name.length && text.startsWith(name, start + 1)) return true
  const slash = text.indexOf('\\', start)
  return slash !== -1 && slash < end && JSON.parse(text.slice(start, end)) === name
}

const isSpace = (code: number): boolean => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09

function skipSpace(text: string, at: number): number {
  while (isSpace(text.charCodeAt(at))) at++
  return at
}

function skipComma(text: string, at: number): number {
  const next = skipSpace(text, at)
  return text.charCodeAt(next) === COMMA ? skipSpace(text, next + 1) : next
}

const opens = (code: number): boolean => code === OPEN_BRACE || code === OPEN_BRACKET
const closes = (code: number): boolean => code === CLOSE_BRACE || code === CLOSE_BRACKET

/** The place right after the value that begins at `at`. */
function skipValue(text: string, at: number): number {
  let depth = 0
  let i = at
  while (i < text.length) {
    const code = text.charCodeAt(i)
    if (code === QUOTE) {
      i = skipString(text, i)
      if (depth === 0) return i
      continue
    }
    if (opens(code)) depth++
    else if (closes(code)) {
      if (depth === 0) return i
      if (--depth === 0) return i + 1
    } else if (depth === 0 && (code === COMMA || isSpace(code))) return i
    i++
  }
  return i
}

function skipString(text: string, at: number): number {
  let end = text.indexOf('"', at + 1)
  while (end !== -1 && isEscaped(text, end)) end = text.indexOf('"', end + 1)
  return end === -1 ? text.length : end + 1
}

function isEscaped(text: string, at: number): boolean {
  let slashes = 0
  while (text.charCodeAt(at - 1 - slashes) === BACKSLASH) slashes++
  return slashes % 2 === 1
}
