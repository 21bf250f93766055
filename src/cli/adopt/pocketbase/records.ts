import { storableJson, storableText } from '../../../core/storable.ts'
import type { Note } from '../plan.ts'
import type { Collection } from './collections.ts'
import { idIn, type Source, type SourceRow, sqliteName, wholeText } from './source.ts'
import type { TargetColumn } from './statements.ts'

export type BroughtTable = { collection: Collection; columns: readonly TargetColumn[] }
/** `json`: the row as JSON text, in which numbers have all their digits. */
export type PocketRecord = { id: string; json: string }

/** What does not come as it was. */
class Losses {
  dates = 0
  json = 0
  readonly unkept = new Map<string, number>()
  #isUnkept = false

  text(given: string): string {
    const kept = storableText(given)
    this.#isUnkept ||= kept !== given
    return kept
  }

  /** JSON text; undefined for what is none. */
  jsonText(given: string): string | undefined {
    const kept = storableJson(given)
    this.#isUnkept ||= kept !== undefined && kept !== given
    return kept
  }

  endOf(column: string): void {
    if (this.#isUnkept) this.unkept.set(column, (this.unkept.get(column) ?? 0) + 1)
    this.#isUnkept = false
  }
}

export function* recordsOf(
  source: Source,
  { collection, columns }: BroughtTable,
  losses = new Losses(),
): Generator<PocketRecord> {
  const has = new Set(source.columns(collection.name))
  const wanted = columns.filter(({ name }) => has.has(name)).map(({ name }) => wholeText(name))
  for (const row of source.each(`select ${wanted.join(', ')} from ${sqliteName(collection.name)} order by rowid`))
    yield recordOf(row, columns, losses)
}

/** What of the rows cannot come as it is. */
export function lossesOf(source: Source, table: BroughtTable): Note[] {
  const { name } = table.collection
  const losses = new Losses()
  for (const _record of recordsOf(source, table, losses));
  return [
    ...(losses.dates > 0
      ? [
          {
            level: 'warning' as const,
            what: `${losses.dates} dates of ${name}`,
            why: 'cannot be read and are empty here',
          },
        ]
      : []),
    ...(losses.json > 0
      ? [
          {
            level: 'warning' as const,
            what: `${losses.json} JSON values of ${name}`,
            why: 'cannot be read and are texts or empty lists here',
          },
        ]
      : []),
    ...[...losses.unkept].map(([column, count]) => ({
      level: 'changed' as const,
      what: `${count} values of ${name}.${column}`,
      why: 'have what PostgreSQL does not keep (U+0000, halves of characters, numbers beyond its own): the rest of them comes',
    })),
  ]
}

function recordOf(row: SourceRow, columns: readonly TargetColumn[], losses: Losses): PocketRecord {
  const cells = columns.map((column) => {
    const cell = cellOf(row[column.name] ?? null, column, losses)
    losses.endOf(column.name)
    return `${JSON.stringify(column.name)}:${cell}`
  })
  return { id: idIn(row), json: `{${cells.join()}}` }
}

/** JSON text. */
function cellOf(given: unknown, { field, type }: TargetColumn, losses: Losses): string {
  if (field && type === 'jsonb')
    return jsonOf(given, losses) ?? (field.type === 'geoPoint' ? '{"lon":0,"lat":0}' : 'null')
  return JSON.stringify(valueIn(given, field, type, losses))
}

function valueIn(given: unknown, field: TargetColumn['field'], type: string, losses: Losses): unknown {
  if (!field) return given === null ? null : losses.text(String(given))
  if (field.isMultiple) return listOf(given, losses)
  if (field.type === 'number') return numberOf(given, type)
  if (field.type === 'bool') return Number(given) === 1 || given === 'true'
  if (field.type === 'date' || field.type === 'autodate') return dateOf(given, losses)
  const text = given === null ? '' : losses.text(String(given))
  return field.type === 'relation' ? text || null : text
}

function numberOf(given: unknown, type: string): number | string {
  if (typeof given === 'bigint') return String(given)
  const value = Number(given)
  if (!Number.isFinite(value)) return 0
  return type === 'bigint' ? String(BigInt(Math.trunc(value))) : value
}

function listOf(given: unknown, losses: Losses): string[] {
  if (given === null || given === '') return []
  const text = String(given)
  if (!text.startsWith('[')) return [losses.text(text)]
  try {
    return (JSON.parse(text) as unknown[]).map((item) => losses.text(String(item)))
  } catch {
    losses.json++
    return []
  }
}

function jsonOf(given: unknown, losses: Losses): string | undefined {
  if (given === null || given === '') return undefined
  const text = losses.jsonText(String(given))
  if (text !== undefined) return text
  losses.json++
  return JSON.stringify(losses.text(String(given)))
}

const DATE = /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?$/

function dateOf(given: unknown, losses: Losses): string | null {
  const text = given === null ? '' : String(given)
  if (text === '') return null
  if (DATE.test(text) && !Number.isNaN(Date.parse(text.replace(' ', 'T'))))
    return /[Z+]|-\d\d:?\d\d$/.test(text) ? text : `${text}Z`
  losses.dates++
  return null
}
