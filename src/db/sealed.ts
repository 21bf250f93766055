import { AppError } from '../core/errors.ts'
import { SYSTEM } from '../core/identity.ts'
import type { SecretBox } from '../core/secret-box.ts'
import type { Db } from './db.ts'
import { EMPTY, type Sql, sql } from './sql.ts'

/** Where a feature keeps texts of a SecretBox: a column of texts beside a column that tells the rows apart. */
export type SealedColumn = {
  /** As an operator knows it: `TOTP secrets`. */
  readonly name: string
  readonly table: Sql
  readonly id: Sql
  readonly idType: Sql
  /** Expression over the row. */
  readonly sealed: Sql
  /** The assignment that stores another text. */
  readonly store: (text: string) => Sql
  readonly context: (id: string) => string
}

export type Resealed = { name: string; resealed: number; unreadable: number }

const SLICE = 200

type Row = { id: string; sealed: string }

/** Behind the last row of the slice before, because what cannot be read stays as it is. */
const notCurrent = (c: SealedColumn, prefix: string, after: string | undefined): Sql => sql`
  select ${c.id}::text as id, ${c.sealed} as sealed from ${c.table}
  where not starts_with(${c.sealed}, ${prefix}) ${after === undefined ? EMPTY : sql`and ${c.id} > ${after}::${c.idType}`}
  order by ${c.id} limit ${SLICE}::int`

/** Only over the text that was read: whoever stored another one meanwhile was later. */
const replace = (c: SealedColumn, { id, sealed }: Row, text: string): Sql => sql`
  update ${c.table} set ${c.store(text)} where ${c.id} = ${id}::${c.idType} and ${c.sealed} = ${sealed}`

/** Seals anew what an older key sealed, slice by slice; every step may be the last one, and any number may do it at once. */
export async function reseal(db: Db, box: SecretBox, column: SealedColumn, signal?: AbortSignal): Promise<Resealed> {
  const done = { name: column.name, resealed: 0, unreadable: 0 }
  let slice: Row[] = []
  do {
    const last: string | undefined = slice.at(-1)?.id
    slice = await db.rows<Row>(SYSTEM, notCurrent(column, box.prefix, last), { kind: 'slow' })
    for (const row of slice) {
      if (signal?.aborted) return done
      const plain = openOrNothing(box, row, column)
      if (plain === undefined) done.unreadable++
      else done.resealed += await db.run(SYSTEM, replace(column, row, box.seal(plain, column.context(row.id))))
    }
  } while (slice.length === SLICE)
  return done
}

function openOrNothing(box: SecretBox, row: Row, column: SealedColumn): string | undefined {
  try {
    return box.open(row.sealed, column.context(row.id))
  } catch (error) {
    if (error instanceof AppError) return undefined
    throw error
  }
}
