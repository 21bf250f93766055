/** Comments, which PostgreSQL nests in `/* *\/`, and everything in quotes; `E'…'` alone knows backslashes. */
const HIDDEN =
  /--[^\n]*|\/\*|(\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$)[\s\S]*?\1|\b[eE]'(?:[^'\\]|\\[\s\S]|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"/g

function endOfComment(query: string, from: number): number {
  const marks = /\/\*|\*\//g
  marks.lastIndex = from
  let depth = 0
  for (let mark = marks.exec(query); mark; mark = marks.exec(query)) {
    depth += mark[0] === '/*' ? 1 : -1
    if (depth === 0) return marks.lastIndex
  }
  return query.length
}

/** The same length, with blanks for comments and `_` for what stands in quotes: what is left are the words of statements. */
function masked(query: string): string {
  const hidden = new RegExp(HIDDEN)
  let words = ''
  for (let found = hidden.exec(query); found; found = hidden.exec(query)) {
    const from = found.index
    const isComment = found[0].startsWith('--') || found[0] === '/*'
    if (found[0] === '/*') hidden.lastIndex = endOfComment(query, from)
    const length = hidden.lastIndex - from
    words += query.slice(words.length, from)
    words += isComment ? ' '.repeat(length) : found[0][0] + '_'.repeat(length - 2) + found[0].at(-1)
  }
  return words + query.slice(words.length)
}

export type Danger = {
  kind: 'all rows' | 'some rows' | 'drop'
  statement: string
  name: string
  /** The rows that PostgreSQL counts for the statement are those that it writes. */
  isCounted: boolean
}

const NAME = String.raw`((?:"[^"]+"|[\w$]+)(?:\s*\.\s*(?:"[^"]+"|[\w$]+))*)`
const KINDS = [
  'access method|aggregate|collation|conversion|database|domain|event trigger|extension|foreign data wrapper',
  'foreign table|function|group|index|language|materialized view|operator class|operator family|policy|procedure',
  'publication|role|routine|rule|schema|sequence|server|statistics|subscription|table|tablespace',
  'text search (?:configuration|dictionary|parser|template)|trigger|type|user mapping for|user|view',
]
  .join('|')
  .replaceAll(' ', String.raw`\s+`)
const pattern = (text: string): RegExp => new RegExp(text, 'id')
const DROPPED = [
  pattern(
    String.raw`^(?:drop|truncate)\s+(?:(?:${KINDS})\s+)?(?:concurrently\s+)?(?:if\s+exists\s+)?(?:only\s+)?${NAME}`,
  ),
  // ALTER TABLE … DROP [COLUMN] x, but not ALTER COLUMN x DROP NOT NULL.
  pattern(
    String.raw`^alter\s[\s\S]*?\bdrop\s+(?!(?:not|default|expression|identity)\b)(?:(?:column|constraint|attribute|value)\s+)?(?:if\s+exists\s+)?${NAME}`,
  ),
]
/** Anywhere, since a query may stand before it. Not `FOR UPDATE`, `DO UPDATE` and `ON UPDATE`. */
const WRITTEN = new RegExp(
  String.raw`(?<!\b(?:for|key|do|on)\s+)\b(?:update\s+(?!set\b)(?:only\s+)?|delete\s+from\s+(?:only\s+)?)${NAME}`,
  'gid',
)
/** Defines what runs later, or gives a right of that name. */
const RUNS_NOTHING = /^(?:create|alter|grant|revoke|comment)\b|^explain\b(?![^;]*\banalyze\b)/i

/** Behind a statement that may stand in parentheses: whether it has a WHERE of its own. */
function hasCondition(rest: string): boolean {
  let depth = 0
  for (const { 0: word } of rest.matchAll(/[()]|\bwhere\b/gi)) {
    if (word === '(') depth++
    else if (word === ')') depth--
    else if (depth === 0) return true
    if (depth < 0) return false
  }
  return false
}

const isOutside = (before: string): boolean => before.split('(').length === before.split(')').length

/** What may not have been meant: rows that are written or go, and what cannot be brought back. */
export function dangersOf(query: string): Danger[] {
  const words = masked(query)
  let begin = 0
  return words.split(';').flatMap((part): Danger[] => {
    const from = begin + (part.length - part.trimStart().length)
    begin += part.length + 1
    const text = part.trim()
    const statement = query.slice(from, from + text.length)
    for (const dropping of DROPPED) {
      const at = dropping.exec(text)?.indices?.[1]
      if (at) return [{ kind: 'drop', statement, name: statement.slice(...at).replaceAll('"', ''), isCounted: false }]
    }
    if (RUNS_NOTHING.test(text)) return []
    const written = [...text.matchAll(WRITTEN)].flatMap(({ index, 0: match, indices }) => {
      const at = indices?.[1]
      if (!at) return []
      const kind = hasCondition(text.slice(index + match.length)) ? 'some rows' : 'all rows'
      const isCounted = /^(?:update|delete|with)\b/i.test(text) && isOutside(text.slice(0, index))
      return [{ kind, statement, name: statement.slice(...at), isCounted } as const]
    })
    return [written.find(({ kind }) => kind === 'all rows') ?? written[0] ?? []].flat()
  })
}

export const isWriting = (query: string): boolean =>
  /\b(insert|update|delete|merge|truncate|drop|alter|create|grant|revoke|copy|call|do|vacuum|refresh|reindex|comment)\b/i.test(
    masked(query),
  )
