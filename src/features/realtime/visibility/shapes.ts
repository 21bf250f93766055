import { LRUCache } from 'lru-cache'
import type { DatabaseRole } from '../../../core/identity.ts'
import type { Table } from '../../../db/schema/snapshot.ts'
import type { ColumnNames, ColumnState, Survey } from './sql.ts'

/**
 * Which column had which number and name when a change was logged. Of entries that were taken over from an older version or
 * another database that is a guess, and their images may hold more.
 */
export type LoggedShape = {
  readonly isCertain: boolean
  readonly columns: readonly (readonly [number: number, name: string])[]
}
export type Shapes = ReadonlyMap<string, LoggedShape>

/** An id is a digest of its shape, so that what is known of it stays true. */
export const newShapeCache = (): LRUCache<string, LoggedShape> =>
  new LRUCache({ maxSize: 100_000, sizeCalculation: ({ columns }) => columns.length + 1 })
export type ShapeCache = ReturnType<typeof newShapeCache>

const mayReadColumn = ([, , anon, authenticated]: ColumnState, role: DatabaseRole): boolean =>
  role === 'none' || (role === 'svc_anon' ? anon : authenticated)

/**
 * What stays of an image: the columns that are still there and that the role may read now, by their numbers, under the
 * names they have now. Undefined: all of it, as it is. Of a shape that is not known nothing stays.
 */
export function staying(
  shape: LoggedShape | undefined,
  columns: readonly ColumnState[],
  role: DatabaseRole,
): ColumnNames | undefined {
  const readable = new Map(
    columns.filter((column) => mayReadColumn(column, role)).map(([number, name]) => [number, name]),
  )
  const names = new Map<string, string>()
  for (const [number, then] of shape?.columns ?? []) {
    const now = readable.get(number)
    if (now !== undefined) names.set(then, now)
  }
  const isWhole = shape?.isCertain && names.size === shape.columns.length && names.size > 0
  return isWhole && [...names].every(([then, now]) => then === now) ? undefined : names
}

export const isCalled = ({ schema, name }: Table, now: Survey[string]): boolean =>
  schema === now.schema && name === now.name

/** Whether the snapshot knows the columns of a table, how they are computed and who may read them, as the catalogue has them. */
export const hasColumns = ({ columns }: Table, now: Survey[string]): boolean =>
  columns.size === now.columns.length &&
  now.columns.every(([number, name, anon, authenticated, definition]) => {
    const known = columns.get(name)
    return (
      known?.position === number &&
      (known.generation?.isVirtual ? known.generation.definition : null) === (definition ?? null) &&
      known.privileges.svc_anon.has('select') === anon &&
      known.privileges.svc_authenticated.has('select') === authenticated
    )
  })
