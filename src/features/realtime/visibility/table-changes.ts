import { AppError, hasStatus } from '../../../core/errors.ts'
import { getOrCreate } from '../../../core/get-or-create.ts'
import { type DatabaseRole, ON_DATA } from '../../../core/identity.ts'
import type { Change } from '../../../db/changes/log.ts'
import type { Db } from '../../../db/db.ts'
import type { TableInSchema } from '../../../db/schema/row-image.ts'
import { type Shapes, staying } from './shapes.ts'
import {
  type Images,
  imagesOf,
  type LoggedImages,
  type NamesByShape,
  NO_ROWS,
  type Numbered,
  type RowImages,
  type Survey,
} from './sql.ts'

/** How PostgreSQL is asked about changes. */
export const CHECK = { kind: 'slow', plain: true, timeoutMs: 5_000 } as const

/** The changes of one table in a page, and its rights and row security as they are now. */
export type TableChanges = TableInSchema & {
  readonly items: readonly Numbered[]
  readonly security: Survey[string]
  /** Of the shapes of which not all is told to this role: what is. */
  readonly cutFor: (role: DatabaseRole) => NamesByShape
  /** The rows that the changes hold, read once for all subscribers. */
  readonly images: () => Promise<Images>
  readImages(items: readonly Numbered[]): Promise<Images>
}

/** The database is away or out of connections: the answer is unknown. All other failures would happen again. */
export const isTransient = (error: unknown): boolean => hasStatus(error, 503)

type Deps = {
  db: Db
  log: LoggedImages
  shapes: Shapes
  onUnreadable: (change: Change, error: unknown) => void
}

export function tableChanges(
  at: TableInSchema,
  items: readonly Numbered[],
  security: Survey[string],
  { db, log, shapes, onUnreadable }: Deps,
): TableChanges {
  let images: Promise<Images> | undefined
  const shapesHere = new Set(items.map(({ change }) => change.shape))
  const namesFor = (role: DatabaseRole): NamesByShape =>
    new Map(
      [...shapesHere].flatMap((id) => {
        const names = staying(shapes.get(id), security.columns, role)
        return names ? [[id, names]] : []
      }),
    )
  const cuts = new Map<DatabaseRole, NamesByShape>()
  /** A record that is no row of its table, as a function's result may be, is seen by no caller; the others still are. */
  async function readImages(items: readonly Numbered[]): Promise<Images> {
    try {
      return JSON.parse(
        (await db.fly(ON_DATA, imagesOf(log, at, security.asked, items, namesFor('none')), CHECK)) ?? '{}',
      ) as Images
    } catch (error) {
      if (!(error instanceof AppError) || isTransient(error)) throw error
      const [first] = items
      if (first && items.length === 1) onUnreadable(first.change, error)
      if (items.length <= 1) return NO_IMAGES
      const half = Math.ceil(items.length / 2)
      return both(await readImages(items.slice(0, half)), await readImages(items.slice(half)))
    }
  }
  return {
    ...at,
    items,
    security,
    cutFor: (role) => getOrCreate(cuts, role, () => namesFor(role)),
    readImages,
    images: () => (images ??= readImages(items)),
  }
}

const NO_IMAGES: Images = { live: NO_ROWS, partial: NO_ROWS, gone: NO_ROWS, old: NO_ROWS }

function both(a: Images, b: Images): Images {
  /** Array literals end with a brace each, so they are joined inside. */
  const join = (one: RowImages, two: RowImages): RowImages => {
    if (one.numbers.length === 0) return two
    if (two.numbers.length === 0) return one
    return { numbers: [...one.numbers, ...two.numbers], array: `${one.array.slice(0, -1)},${two.array.slice(1)}` }
  }
  const { live, partial, gone, old } = b
  return {
    live: join(a.live, live),
    partial: join(a.partial, partial),
    gone: join(a.gone, gone),
    old: join(a.old, old),
  }
}
