/** Without comments and texts, so that what is left are the words of statements. */
const bare = (query: string): string =>
  query
    .replace(/--[^\n]*/g, ' ')
    .replace(/\/\*[\s\S]*?\*\//g, ' ')
    .replace(/(\$[\w]*\$)[\s\S]*?\1/g, "''")
    .replace(/'(?:[^']|'')*'/g, "''")

export type Danger = { kind: 'all rows' | 'drop'; statement: string; name: string }

/** What a statement would do that one may not have meant: writes to every row, and what cannot be brought back. */
export function dangersOf(query: string): Danger[] {
  return bare(query)
    .split(';')
    .map((statement) => statement.trim().replace(/\s+/g, ' '))
    .flatMap((statement): Danger[] => {
      const dropped =
        /^(?:drop|truncate)\s+(?:table\s+|schema\s+|materialized view\s+|view\s+|database\s+|type\s+|function\s+)?(?:if exists\s+)?(?:only\s+)?("[^"]+"|[\w.]+)/i.exec(
          statement,
        )
      if (dropped) return [{ kind: 'drop', statement, name: (dropped[1] ?? '').replaceAll('"', '') }]
      const written = /^(?:with\s.*\)\s*)?(?:update\s+(?:only\s+)?|delete\s+from\s+(?:only\s+)?)("[^"]+"|[\w.]+)/i.exec(
        statement,
      )
      return written && !/\bwhere\b/i.test(statement) ? [{ kind: 'all rows', statement, name: written[1] ?? '' }] : []
    })
}

export const isWriting = (query: string): boolean =>
  /\b(insert|update|delete|merge|truncate|drop|alter|create|grant|revoke|copy|call|do|vacuum|refresh|reindex|comment)\b/i.test(
    bare(query),
  )
