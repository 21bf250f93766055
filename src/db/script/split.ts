/** One statement of a script, and its first words in lower case, without comments. */
export type ScriptStatement = { readonly text: string; readonly words: readonly string[] }

/** A comment (nested ones are closed by hand), a quoted text, an identifier or number, or any other character. */
const TOKEN =
  /--[^\n]*|\/\*|[eE]'(?:[^'\\]|\\[\s\S]|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$|[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*|\d[\w.]*|[\s\S]/g

/**
 * Splits a script at its semicolons. It need not be right about every text: PostgreSQL refuses a piece that holds two
 * statements.
 */
export function splitScript(script: string): ScriptStatement[] {
  const statements: ScriptStatement[] = []
  const token = new RegExp(TOKEN)
  let start = 0
  let words: string[] = []
  let depth = 0
  /** Blocks of a function's body that is SQL and no text: BEGIN ATOMIC … END. */
  let blocks = 0
  const end = (at: number): void => {
    const text = script.slice(start, at).trim()
    if (words.length > 0 || depth > 0) statements.push({ text, words })
    words = []
    depth = 0
    blocks = 0
  }
  for (let match = token.exec(script); match; match = token.exec(script)) {
    const [text] = match
    if (text === '/*') token.lastIndex = endOfComment(script, match.index)
    else if (/^\$\w*\$$/.test(text)) token.lastIndex = endOf(script, text, token.lastIndex)
    else if (text === '(') depth++
    else if (text === ')') depth--
    else if (text === ';' && depth <= 0 && blocks <= 0) {
      end(match.index)
      start = token.lastIndex
    } else if (/^[A-Za-z_]/.test(text) && !text.endsWith("'")) {
      const word = text.toLowerCase()
      if (words[0] === 'create' && (word === 'begin' || (word === 'case' && blocks > 0))) blocks++
      else if (word === 'end' && blocks > 0) blocks--
      words.push(word)
    } else if (!/^(\s|--)/.test(text)) words.push(text.slice(0, 1))
  }
  end(script.length)
  return statements
}

function endOf(script: string, tag: string, from: number): number {
  const at = script.indexOf(tag, from)
  return at === -1 ? script.length : at + tag.length
}

/** Comments of SQL nest. */
function endOfComment(script: string, from: number): number {
  const edge = /\/\*|\*\//g
  edge.lastIndex = from
  let depth = 0
  for (let match = edge.exec(script); match; match = edge.exec(script)) {
    depth += match[0] === '/*' ? 1 : -1
    if (depth === 0) return edge.lastIndex
  }
  return script.length
}

const TRANSACTION = new Set(['begin', 'start', 'commit', 'end', 'rollback', 'abort', 'savepoint', 'release'])

/** Why a statement cannot run inside a transaction that it must not end, and that leaves nothing behind. */
export function untriable({ words }: ScriptStatement, inside = 'a dry run'): string | undefined {
  const [first = '', ...rest] = words
  const names = rest.slice(0, 3)
  if (
    TRANSACTION.has(first) ||
    (first === 'prepare' && names[0] === 'transaction') ||
    (first === 'set' && (names.includes('transaction') || names.includes('characteristics')))
  ) {
    return `transaction control is not possible in ${inside}`
  }
  if (first === 'set' && names[0] === 'constraints' && names[1] === 'all')
    return `constraints are checked at the end of ${inside}`
  if (first === 'copy' && (rest.includes('program') || (rest.includes('to') && !rest.includes('stdout')))) {
    return `COPY to a file or program is not possible in ${inside}`
  }
  return undefined
}
