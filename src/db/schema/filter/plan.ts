import type { Slot } from '../../sql.ts'
import { nearColumn, nearRelation } from '../did-you-mean.ts'
import type { Column, Schema, Table } from '../snapshot.ts'
import { columnFor, isAllowed, notAllowed, type RelationStep, relationFor, type Viewer } from '../viewer.ts'
import { isIncomparable } from './operators.ts'
import { type CompareOp, type Filter, invalidFilter, type MaybeFractional, type Path } from './parse.ts'

/** A filter over columns and relations that exist for the viewer. */
export type PlannedFilter =
  | { readonly kind: 'and' | 'or'; readonly parts: readonly PlannedFilter[] }
  | (ColumnPath & { readonly kind: 'compare'; readonly op: CompareOp; readonly value: string | Slot } & MaybeFractional)
  | (ColumnPath & { readonly kind: 'null'; readonly negated: boolean })
  | (ColumnPath & { readonly kind: 'in'; readonly values: readonly string[] | Slot } & MaybeFractional)

type ColumnPath = { readonly steps: readonly RelationStep[]; readonly column: Column }

export type FilterScope = {
  readonly schema: Schema
  readonly viewer: Viewer
  /** Realtime evaluates a filter over one row alone. */
  readonly withoutRelations?: boolean
}

export function planFilter(filter: Filter, table: Table, scope: FilterScope): PlannedFilter {
  switch (filter.kind) {
    case 'and':
    case 'or':
      return { kind: filter.kind, parts: filter.parts.map((part) => planFilter(part, table, scope)) }
    case 'null':
      return { ...columnAt(filter.path, table, scope), kind: 'null', negated: filter.negated }
    case 'compare':
      return { ...filter, ...comparable(filter.path, table, scope) }
    case 'in':
      return { ...filter, ...comparable(filter.path, table, scope) }
  }
}

/** How many relations its paths have. */
export function relationsIn(filter: PlannedFilter | undefined): number {
  if (!filter) return 0
  if ('steps' in filter) return filter.steps.length
  return filter.parts.reduce((sum, part) => sum + relationsIn(part), 0)
}

function comparable(path: Path, table: Table, scope: FilterScope): ColumnPath {
  const found = columnAt(path, table, scope)
  if (isIncomparable(found.column)) throw invalidFilter(`column "${found.column.name}" can only be compared with null`)
  return found
}

function columnAt(path: Path, table: Table, { schema, viewer, withoutRelations = false }: FilterScope): ColumnPath {
  const steps: RelationStep[] = []
  let at = table
  for (const name of path.slice(0, -1)) {
    const step = withoutRelations ? undefined : relationFor(schema, at, name, viewer.role)
    if (!step) throw invalidFilter(`unknown relation: ${name}`, nearRelation(schema, at, name, viewer))
    if (!isAllowed(schema, step.target, viewer)) throw notAllowed(step.target)
    steps.push(step)
    at = step.target
  }
  const name = path.at(-1) ?? ''
  const column = columnFor(at, name, viewer.role)
  if (!column) throw invalidFilter(`unknown column: ${name}`, nearColumn(at, name, viewer))
  return { steps, column }
}
