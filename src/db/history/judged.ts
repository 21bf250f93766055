import type { DatabaseRole } from '../../core/identity.ts'
import { equals } from '../rows/keys.ts'
import { policyRule } from '../schema/policy-rule.ts'
import { heldColumns, rowAlias, rowImage, type TableInSchema } from '../schema/row-image.ts'
import { columnsFor, keyFor } from '../schema/viewer.ts'
import { AND, Ident, join, type Sql, sql } from '../sql.ts'

const LIVE = new Ident('svc_live')

/** Row security of a table for one role, as svc.row_security() answers it. */
export type ImageSecurity = {
  readonly rls: boolean
  /** The policies read the table itself, so they cannot judge an image of another time. */
  readonly isClosed: boolean
  readonly policies: readonly { permissive: boolean; expression: string }[]
  /** Columns that the policies read. */
  readonly asked: readonly string[]
}

export const rowSecurity = (oid: number, role: DatabaseRole): Sql =>
  sql`select svc.row_security(${oid}::pg_catalog.oid, ${role})::text`

/** A change whose images have the column names of now, as JSON texts; null where there is none. */
export type ImagePair = {
  readonly n: number
  readonly action: string
  readonly key: string | null
  readonly old: string | null
  readonly new: string | null
  /** The new image is the row as it is in the table now. */
  readonly isNow: boolean
}

/** Arrays side by side, as a FROM item. */
export const unnested = (arrays: readonly Sql[]): Sql =>
  sql`rows from (${join(arrays.map((array) => sql`pg_catalog.unnest(${array})`))})`

/**
 * What the current role may see of changes of one table: a JSON array of `{n, action, key, changes}`. Policies are held
 * against each image. Where they cannot judge images, a row that is there is looked for, and all else is hidden.
 */
export function judgedChanges(
  at: TableInSchema,
  role: DatabaseRole,
  security: ImageSecurity,
  pairs: readonly ImagePair[],
): Sql {
  const { table } = at
  const names = columnsFor(table, role).map(({ name }) => name)
  const key = keyFor(table, role).length > 0 ? sql`i.key` : sql`null::pg_catalog.jsonb`
  const rule = sql`coalesce((${policyRule(security.policies)}), false)`
  const passes = (image: Sql): Sql => {
    if (!security.rls) return sql`(${image} is not null)`
    if (security.isClosed) return sql`false`
    return sql`coalesce(case when ${image} ?& ${heldColumns(table, security.asked)}::text[] then (select ${rule} from ${rowImage(at, image)}) end, false)`
  }
  const isThere = security.rls && security.isClosed && keyFor(table, role).length > 0
  const seesNew = isThere
    ? sql`(i.is_now and exists (select from ${table.ident} as ${LIVE}, ${rowImage(at, sql`i.new`)} where ${join(
        table.primaryKey.map((column) => equals(column, LIVE, sql`${rowAlias(table)}.${column.ident}`)),
        AND,
      )}))`
    : passes(sql`i.new`)
  const texts = <K extends 'action' | 'key' | 'old' | 'new'>(field: K) => pairs.map((pair) => pair[field])
  return sql`
    select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('n', j.n, 'action', j.action, 'key', j.key,
      'changes', svc.image_changes(j.action, case when j.sees_old then j.old end, case when j.sees_new then j.new end, ${names}::text[]))
      order by j.n)::text, '[]')
    from (
      select i.n, i.action, ${key} as key, i.old, i.new, i.old is not null and ${passes(sql`i.old`)} as sees_old,
        i.new is not null and ${seesNew} as sees_new
      from ${unnested([
        sql`${pairs.map(({ n }) => n)}::int[]`,
        sql`${texts('action')}::text[]`,
        sql`${texts('key')}::pg_catalog.jsonb[]`,
        sql`${texts('old')}::pg_catalog.jsonb[]`,
        sql`${texts('new')}::pg_catalog.jsonb[]`,
        sql`${pairs.map(({ isNow }) => String(isNow))}::bool[]`,
      ])} as i(n, action, key, old, new, is_now)
    ) as j where j.sees_old or j.sees_new`
}
