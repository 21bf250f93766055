import { quoted } from './rule-sql.ts'
import type { TargetColumn } from './statements.ts'

type TargetIndex = { name: string; unique: boolean; parts: string[]; where: string }

const NAME = '[`"[]?(\\w+)[`"\\]]?'
const INDEX = new RegExp(
  `^\\s*create\\s+(unique\\s+)?index\\s+(?:if\\s+not\\s+exists\\s+)?${NAME}\\s+on\\s+${NAME}\\s*\\(([^()]*)\\)\\s*(where\\s+.*)?;?\\s*$`,
  'is',
)
const PART = new RegExp(`^\\s*${NAME}(?:\\s+collate\\s+(binary|nocase))?(?:\\s+(asc|desc))?\\s*$`, 'i')

/** Lists of columns, those of columns that accounts have instead are not needed; undefined for what is not plain. */
export function indexOf(text: string, columns: readonly TargetColumn[]): TargetIndex | 'skip' | undefined {
  const found = INDEX.exec(text)
  if (!found) return undefined
  const types = new Map(columns.map(({ name, type }) => [name, type]))
  const parts = (found[4] ?? '').split(',').map((part) => PART.exec(part))
  if (parts.some((part) => part?.[1] === 'tokenKey' || part?.[1] === 'email') && !types.has('email')) return 'skip'
  const where = new RegExp(`^where\\s+${NAME}\\s*(?:!=|<>)\\s*''\\s*$`, 'i').exec((found[5] ?? '').trim())?.[1]
  if (found[5] !== undefined && (where === undefined || types.get(where) !== 'text')) return undefined
  const said = parts.map((part) => {
    const [, name = '', collation = '', order = ''] = part ?? []
    const type = types.get(name)
    if (type === undefined) return undefined
    // NOCASE of SQLite takes the letters of ASCII alone for equal.
    const isFolded = collation.toLowerCase() === 'nocase' && type === 'text'
    return `${isFolded ? `lower(${quoted(name)} collate "C")` : quoted(name)}${order === '' ? '' : ` ${order.toLowerCase()}`}`
  })
  if (said.includes(undefined)) return undefined
  return {
    name: found[2] ?? '',
    unique: found[1] !== undefined,
    parts: said.flatMap((one) => one ?? []),
    where: where === undefined ? '' : ` where ${quoted(where)} <> ''`,
  }
}
