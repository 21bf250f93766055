/** The same length, with blanks for comments and for what stands in quotes: what is left are the words of statements. */
const masked = (query: string): string =>
  query.replace(/--[^\n]*|\/\*[\s\S]*?\*\/|(\$\w*\$)[\s\S]*?\1|'(?:[^']|'')*'|"(?:[^"]|"")*"/g, (part) => {
    const [first = ''] = part
    const isQuoted = first === '"' || first === "'"
    return isQuoted ? first + '_'.repeat(part.length - 2) + first : ' '.repeat(part.length)
  })

export type Danger = { kind: 'all rows' | 'some rows' | 'drop'; statement: string; name: string }

const NAME = String.raw`((?:"[^"]+"|[\w$]+)(?:\s*\.\s*(?:"[^"]+"|[\w$]+))*)`
const DROPPED = new RegExp(
  String.raw`^(?:drop|truncate)\s+(?:(?:table|schema|materialized\s+view|view|database|type|function|index|sequence)\s+)?(?:concurrently\s+)?(?:if\s+exists\s+)?(?:only\s+)?${NAME}`,
  'id',
)
const WRITTEN = new RegExp(
  String.raw`^(?:with\s[\s\S]*\)\s*)?(?:update\s+(?:only\s+)?|delete\s+from\s+(?:only\s+)?)${NAME}`,
  'id',
)

/** What may not have been meant: rows that are written or go, and what cannot be brought back. */
export function dangersOf(query: string): Danger[] {
  const words = masked(query)
  let begin = 0
  return words.split(';').flatMap((part): Danger[] => {
    const from = begin + (part.length - part.trimStart().length)
    begin += part.length + 1
    const statement = query.slice(from, from + part.trim().length)
    const found = (pattern: RegExp): string | undefined => {
      const at = pattern.exec(part.trim())?.indices?.[1]
      return at && statement.slice(...at)
    }
    const dropped = found(DROPPED)
    if (dropped !== undefined) return [{ kind: 'drop', statement, name: dropped.replaceAll('"', '') }]
    const name = found(WRITTEN)
    if (name === undefined) return []
    return [{ kind: /\bwhere\b/i.test(part) ? 'some rows' : 'all rows', statement, name }]
  })
}

export const isWriting = (query: string): boolean =>
  /\b(insert|update|delete|merge|truncate|drop|alter|create|grant|revoke|copy|call|do|vacuum|refresh|reindex|comment)\b/i.test(
    masked(query),
  )
