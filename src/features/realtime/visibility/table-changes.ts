import { AppError, hasStatus } from '../../../core/errors.ts'
import type { Identity } from '../../../core/identity.ts'
import type { Change } from '../../../db/changes/log.ts'
import type { Db } from '../../../db/db.ts'
import type { TableIn } from '../../../db/schema/row-image.ts'
import type { Schema, Table } from '../../../db/schema/snapshot.ts'
import { type Images, imagesOf, NO_ROWS, type Numbered, type Rows, type Survey } from './sql.ts'

/** How PostgreSQL is asked about changes. */
export const CHECK = { kind: 'slow', plain: true, timeoutMs: 5_000 } as const

const NO_IMAGES: Images = { live: NO_ROWS, partial: NO_ROWS, gone: NO_ROWS, old: NO_ROWS }

/** The server's own role on the search path of requests: keys may be of an extension's type. */
const SERVER: Identity = { kind: 'admin', tokenId: '', expiresAt: 0 }

/** The database is away or out of connections: the answer is unknown. All other failures would happen again. */
export const isTransient = (error: unknown): boolean => hasStatus(error, 503)

/** The changes of one table, with its row security as it is now and their images as rows. */
export class TableChanges implements TableIn {
  readonly schema: Schema
  readonly table: Table
  readonly items: readonly Numbered[]
  readonly security: Survey[string]
  readonly #db: Db
  readonly #onUnreadable: (change: Change, error: unknown) => void
  #images: Promise<Images> | undefined

  constructor(
    at: TableIn,
    items: readonly Numbered[],
    security: Survey[string],
    deps: { db: Db; onUnreadable: (change: Change, error: unknown) => void },
  ) {
    this.schema = at.schema
    this.table = at.table
    this.items = items
    this.security = security
    this.#db = deps.db
    this.#onUnreadable = deps.onUnreadable
  }

  /** Read once for all subscribers. */
  images(): Promise<Images> {
    this.#images ??= this.readImages(this.items)
    return this.#images
  }

  /** A record that is no row of its table, as a function's result may be, is seen by no caller; the others still are. */
  async readImages(items: readonly Numbered[]): Promise<Images> {
    try {
      const text = await this.#db.fly(SERVER, imagesOf(this, this.security.asked, items), CHECK)
      return JSON.parse(text ?? '{}') as Images
    } catch (error) {
      if (!(error instanceof AppError) || isTransient(error)) throw error
      const [first] = items
      if (first && items.length === 1) this.#onUnreadable(first.change, error)
      if (items.length <= 1) return NO_IMAGES
      const half = Math.ceil(items.length / 2)
      return both(await this.readImages(items.slice(0, half)), await this.readImages(items.slice(half)))
    }
  }
}

const both = (a: Images, b: Images): Images => ({
  live: bothRows(a.live, b.live),
  partial: bothRows(a.partial, b.partial),
  gone: bothRows(a.gone, b.gone),
  old: bothRows(a.old, b.old),
})

/** Array literals end with a brace each, so they are joined inside. */
function bothRows(a: Rows, b: Rows): Rows {
  if (a.numbers.length === 0) return b
  if (b.numbers.length === 0) return a
  return { numbers: [...a.numbers, ...b.numbers], array: `${a.array.slice(0, -1)},${b.array.slice(1)}` }
}
