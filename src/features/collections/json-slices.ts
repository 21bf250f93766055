/**
 * Where the parts of a JSON text stand. JavaScript numbers would lose digits of bigint and numeric values, so values
 * are cut out of the text and handed to PostgreSQL as the client wrote them. The text must be known to be valid JSON.
 */

/** The texts of an array's elements. */
export function elementTexts(text: string): string[] {
  const texts: string[] = []
  let at = skipSpace(text, skipSpace(text, 0) + 1)
  while (at < text.length && text[at] !== ']') {
    const end = skipValue(text, at)
    texts.push(text.slice(at, end))
    at = skipSpace(text, end)
    if (text[at] === ',') at = skipSpace(text, at + 1)
  }
  return texts
}

/** The texts of an object's members by name; of a name that stands twice the last one counts, as in JSON.parse. */
export function memberTexts(text: string): Map<string, string> {
  const texts = new Map<string, string>()
  let at = skipSpace(text, skipSpace(text, 0) + 1)
  while (at < text.length && text[at] !== '}') {
    const nameEnd = skipValue(text, at)
    const name = JSON.parse(text.slice(at, nameEnd)) as string
    at = skipSpace(text, skipSpace(text, nameEnd) + 1)
    const end = skipValue(text, at)
    texts.set(name, text.slice(at, end))
    at = skipSpace(text, end)
    if (text[at] === ',') at = skipSpace(text, at + 1)
  }
  return texts
}

function skipSpace(text: string, at: number): number {
  while (at < text.length && ' \t\n\r'.includes(text[at] as string)) at++
  return at
}

const TOKEN = /["[\]{}]/g
const SCALAR_END = /[\s,\]}]|$/g

/** The place right after the value that begins at `at`. */
function skipValue(text: string, at: number): number {
  const first = text[at]
  if (first === '"') return skipString(text, at)
  if (first !== '{' && first !== '[') {
    SCALAR_END.lastIndex = at
    return SCALAR_END.exec(text)?.index ?? text.length
  }
  let depth = 0
  for (let i = at; i < text.length; ) {
    TOKEN.lastIndex = i
    const found = TOKEN.exec(text)
    if (!found) break
    if (found[0] === '"') {
      i = skipString(text, found.index)
      continue
    }
    depth += found[0] === '{' || found[0] === '[' ? 1 : -1
    i = found.index + 1
    if (depth === 0) return i
  }
  return text.length
}

function skipString(text: string, at: number): number {
  let end = text.indexOf('"', at + 1)
  while (end !== -1 && isEscaped(text, end)) end = text.indexOf('"', end + 1)
  return end === -1 ? text.length : end + 1
}

function isEscaped(text: string, at: number): boolean {
  let slashes = 0
  while (text[at - 1 - slashes] === '\\') slashes++
  return slashes % 2 === 1
}
