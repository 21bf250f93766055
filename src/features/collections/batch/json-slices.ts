/**
 * Finds the parts of a JSON text. JavaScript numbers would lose digits of bigint and numeric values, so values are cut
 * out of the text and sent to PostgreSQL as the client wrote them. The text must be valid JSON.
 */

const QUOTE = 0x22
const COMMA = 0x2c
const BACKSLASH = 0x5c
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d

/** For each name, the text of that member in each element. */
type Texts = readonly (string | undefined)[][]

/**
 * The texts of these members in the elements of the array `arrayName`, itself a member of the outer object. As in
 * JSON.parse, the last of duplicate names wins, and escaped spellings of a name are recognised.
 */
export function memberTextsOfEach(text: string, arrayName: string, names: readonly string[]): Texts {
  let texts: Texts = names.map(() => [])
  let i = skipSpace(text, skipSpace(text, 0) + 1)
  while (i < text.length && text.charCodeAt(i) !== CLOSE_BRACE) {
    const nameEnd = skipString(text, i)
    const value = valueAfter(text, nameEnd)
    if (whichName(text, i, nameEnd, [arrayName]) === 0) {
      texts = names.map(() => [])
      i = readElements(text, value, names, texts)
    } else i = skipValue(text, value)
    i = skipComma(text, i)
  }
  return texts
}

/** Elements that are not objects have no members. Returns the index after the array. */
function readElements(text: string, at: number, names: readonly string[], texts: Texts): number {
  if (text.charCodeAt(at) !== OPEN_BRACKET) return skipValue(text, at)
  let i = skipSpace(text, at + 1)
  for (let element = 0; i < text.length && text.charCodeAt(i) !== CLOSE_BRACKET; element++) {
    for (const each of texts) each.push(undefined)
    const isObject = text.charCodeAt(i) === OPEN_BRACE
    i = skipComma(text, isObject ? readMembers(text, i, names, texts, element) : skipValue(text, i))
  }
  return i + 1
}

/** Returns the index after the object that begins at `at`. */
function readMembers(text: string, at: number, names: readonly string[], texts: Texts, element: number): number {
  let i = skipSpace(text, at + 1)
  while (i < text.length && text.charCodeAt(i) !== CLOSE_BRACE) {
    const nameEnd = skipString(text, i)
    const value = valueAfter(text, nameEnd)
    const end = skipValue(text, value)
    const each = texts[whichName(text, i, nameEnd, names)]
    if (each) each[element] = text.slice(value, end)
    i = skipComma(text, end)
  }
  return i + 1
}

const valueAfter = (text: string, nameEnd: number): number => skipSpace(text, skipSpace(text, nameEnd) + 1)

/**
 * Compares without cutting the name out, which would cost more than the rest of the scan. JSON writes a backslash
 * escaped, so a name that contains one never matches literally. -1 = none of them.
 */
function whichName(text: string, start: number, end: number, names: readonly string[]): number {
  for (let n = 0; n < names.length; n++) {
    const name = names[n] as string
    if (end - start - 2 === name.length && text.startsWith(name, start + 1) && !name.includes('\\')) return n
  }
  for (let i = start; i < end; i++) {
    if (text.charCodeAt(i) === BACKSLASH) return names.indexOf(JSON.parse(text.slice(start, end)) as string)
  }
  return -1
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

/** The index after the value that begins at `at`. */
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
