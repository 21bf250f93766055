const MAX_TOKENS = 20_000
const MAX_LEVELS = 200
/** One object has no more than PostgreSQL has columns for, which is 1,664. */
const MAX_ALIASES = 2_000
const MAX_FRAGMENTS = 500
/** Different ones: the parser takes longest over those it has never seen. */
const MAX_NAMES = 5_000
/** PostgreSQL's own have 63; types and variables may be called a little longer. */
const MAX_NAME = 1_000
/** What people write has fewer of each. */
const LARGE = { tokens: 2_000, levels: 50, characters: 20_000 }

export type Tokens = {
  /** How many were read, comments among them, until the end or the refusal. */
  readonly count: number
  /** Every name: what is not among them the document cannot be about. */
  readonly names: ReadonlySet<string>
  readonly isLarge: boolean
  readonly refusal: string | undefined
}

/**
 * One pass over the text before anybody builds anything of it: the parser calls itself, and a document must not decide how
 * deep. It keeps no token and stops at the first that is too many; what is not GraphQL at all is for the parser to say.
 */
export function readTokens(text: string): Tokens {
  const names = new Set<string>()
  let [count, level, deepest, parentheses, aliases, fragments, at] = [0, 0, 0, 0, 0, 0, 0]
  const tooMany = (): string | undefined => {
    if (count > MAX_TOKENS) return `document has more than ${MAX_TOKENS} tokens`
    if (level > MAX_LEVELS) return `document has more than ${MAX_LEVELS} levels`
    if (aliases > MAX_ALIASES) return `document has more than ${MAX_ALIASES} aliases`
    if (fragments > MAX_FRAGMENTS) return `document has more than ${MAX_FRAGMENTS} fragments`
    if (names.size > MAX_NAMES) return `document has more than ${MAX_NAMES} different names`
    return undefined
  }
  let refusal: string | undefined
  while (at < text.length && refusal === undefined) {
    const code = text.charCodeAt(at)
    if (isIgnored(code)) {
      at++
      continue
    }
    count++
    const start = at
    if (isNameStart(code)) {
      at = endOf(text, at, isNamePart)
      if (at - start > MAX_NAME) refusal = `document has a name of more than ${MAX_NAME} characters`
      const name = text.slice(start, at)
      names.add(name)
      if (level === 0 && name === 'fragment') fragments++
    } else if (code === QUOTE) at = endOfString(text, at)
    else if (code === HASH) at = endOf(text, at, isInLine)
    else if (isDigit(code)) at = endOf(text, at, isNamePart)
    else if (text.startsWith('...', at)) at += 3
    else {
      at++
      if (isOpening(code)) deepest = Math.max(deepest, ++level)
      if (isClosing(code)) level--
      if (code === PARENTHESIS) parentheses++
      if (code === PARENTHESIS_END) parentheses--
      // Inside of parentheses it stands behind the names of arguments and variables.
      if (code === COLON && parentheses === 0) aliases++
    }
    refusal ??= tooMany()
  }
  const isLarge = count > LARGE.tokens || deepest > LARGE.levels || text.length > LARGE.characters
  return { count, names, isLarge, refusal }
}

const QUOTE = 0x22
const HASH = 0x23
const PARENTHESIS = 0x28
const PARENTHESIS_END = 0x29
const COLON = 0x3a
const BACKSLASH = 0x5c

const isIgnored = (code: number): boolean =>
  code === 0x20 || code === 0x0a || code === 0x2c || code === 0x0d || code === 0x09 || code === 0xfeff
const isInLine = (code: number): boolean => code !== 0x0a && code !== 0x0d
const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39
const isNameStart = (code: number): boolean =>
  (code >= 0x61 && code <= 0x7a) || (code >= 0x41 && code <= 0x5a) || code === 0x5f
const isNamePart = (code: number): boolean => isNameStart(code) || isDigit(code)
const isOpening = (code: number): boolean => code === 0x7b || code === 0x28 || code === 0x5b
const isClosing = (code: number): boolean => code === 0x7d || code === 0x29 || code === 0x5d

function endOf(text: string, start: number, belongs: (code: number) => boolean): number {
  let at = start + 1
  while (at < text.length && belongs(text.charCodeAt(at))) at++
  return at
}

/** Behind the closing quotes, or the end of the line or text that they are missing from. */
function endOfString(text: string, start: number): number {
  if (text.startsWith('"""', start)) {
    let end = text.indexOf('"""', start + 3)
    while (end !== -1 && text.charCodeAt(end - 1) === BACKSLASH) end = text.indexOf('"""', end + 1)
    return end === -1 ? text.length : end + 3
  }
  let at = start + 1
  while (at < text.length && isInLine(text.charCodeAt(at))) {
    const code = text.charCodeAt(at++)
    if (code === QUOTE) return at
    if (code === BACKSLASH) at++
  }
  return at
}
