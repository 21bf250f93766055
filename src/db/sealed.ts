import { AppError } from '../core/errors.ts'
import { SYSTEM } from '../core/identity.ts'
import type { SecretBox } from '../core/secret-box.ts'
import type { Db } from './db.ts'
import { EMPTY, type Sql, sql } from './sql.ts'

/** A column in which a feature stores texts sealed by a SecretBox, and the column that identifies its rows. */
export type SealedColumn = {
  /** For the operator, e.g. `TOTP secrets`. */
  readonly name: string
  readonly table: Sql
  readonly id: Sql
  readonly idType: Sql
  /** Expression over the row. */
  readonly sealed: Sql
  /** The assignment that stores the text. */
  readonly store: (text: string) => Sql
  readonly context: (id: string) => string
}

export type Resealed = { name: string; resealed: number; unreadable: number }

const SLICE = 200

type Row = { id: string; sealed: string }

/** Rows after the last slice, because unreadable rows stay unchanged. */
const notCurrent = (c: SealedColumn, prefix: string, after: string | undefined): Sql => sql`
  select ${c.id}::text as id, ${c.sealed} as sealed from ${c.table}
  where not starts_with(${c.sealed}, ${prefix}) ${after === undefined ? EMPTY : sql`and ${c.id} > ${after}::${c.idType}`}
  order by ${c.id} limit ${SLICE}::int`

/** Only if the row still has the text that was read; a newer text is kept. */
const replace = (c: SealedColumn, { id, sealed }: Row, text: string): Sql => sql`
  update ${c.table} set ${c.store(text)} where ${c.id} = ${id}::${c.idType} and ${c.sealed} = ${sealed}`

/** Seals with the current key what an older key sealed, in slices. May be interrupted and run in parallel. */
export async function reseal(db: Db, box: SecretBox, column: SealedColumn, signal?: AbortSignal): Promise<Resealed> {
  const done = { name: column.name, resealed: 0, unreadable: 0 }
  let slice: Row[] = []
  do {
    const last: string | undefined = slice.at(-1)?.id
    slice = await db.rows<Row>(SYSTEM, notCurrent(column, box.prefix, last), { kind: 'slow' })
    for (const row of slice) {
      if (signal?.aborted) return done
      const plain = tryOpen(box, row, column)
      if (plain === undefined) done.unreadable++
      else done.resealed += await db.run(SYSTEM, replace(column, row, box.seal(plain, column.context(row.id))))
    }
  } while (slice.length === SLICE)
  return done
}

function tryOpen(box: SecretBox, row: Row, column: SealedColumn): string | undefined {
  try {
    return box.open(row.sealed, column.context(row.id))
  } catch (error) {
    if (error instanceof AppError) return undefined
    throw error
  }
}
