import type { Relation } from '../snapshot.ts'

/** A foreign key between two tables of the snapshot; both ends are keys of Schema.tables. */
export type Link = {
  constraint: string
  from: string
  fromName: string
  /** Of its schema in lookup order. */
  fromRank: number
  fromColumns: readonly string[]
  to: string
  toName: string
  toColumns: readonly string[]
  /** A partition's copy: a relation of the partition, but not of the referenced table, which has the parent's. */
  inherited: boolean
}

/**
 * The relations of one table with the names that expand and filter paths use. Field names are unique: on a collision, a
 * longer name is used, in the order of the constraint names (children: of the schemas first), so the result is
 * deterministic. Both lists are ordered by constraint name.
 */
export function relationsOf(outgoing: readonly Link[], incoming: readonly Link[]): Relation[] {
  const taken = new Set<string>()
  const claim = (candidates: readonly string[]): string => {
    const free = candidates.find((name) => !taken.has(name)) ?? candidates.at(-1) ?? ''
    taken.add(free)
    return free
  }
  const children = incoming.filter((link) => !link.inherited)
  return [...manyToOne(outgoing, claim), ...oneToMany(children, claim)]
}

type Claim = (candidates: readonly string[]) => string

const onlyColumn = (link: Link): string | undefined => (link.fromColumns.length === 1 ? link.fromColumns[0] : undefined)

const withoutId = (link: Link): string | undefined => onlyColumn(link)?.match(/^(.+)_id$/s)?.[1]

function manyToOne(outgoing: readonly Link[], claim: Claim): Relation[] {
  const fieldNames = new Map<Link, string>()
  // Names from columns come first, so that they win over a table of the same name.
  for (const isFromColumn of [true, false]) {
    for (const link of outgoing) {
      if ((withoutId(link) !== undefined) !== isFromColumn) continue
      const column = onlyColumn(link)
      const isShared = outgoing.some((other) => other !== link && onlyColumn(other) === column)
      const byColumn = column === undefined || isShared ? [] : [column]
      fieldNames.set(link, claim([withoutId(link) ?? link.toName, ...byColumn, link.constraint]))
    }
  }
  return outgoing.map((link) => {
    const fieldName = fieldNames.get(link) ?? link.constraint
    return {
      constraint: link.constraint,
      type: 'many-to-one',
      fieldName,
      names: [...new Set([fieldName, onlyColumn(link) ?? fieldName, link.constraint])],
      fromColumns: link.fromColumns,
      to: link.to,
      toColumns: link.toColumns,
    }
  })
}

function oneToMany(incoming: readonly Link[], claim: Claim): Relation[] {
  const perChild = new Map<string, number>()
  for (const { from } of incoming) perChild.set(from, (perChild.get(from) ?? 0) + 1)
  const seen = new Set<string>()
  const nameOf = (link: Link): Relation => {
    const { fromName: bare, constraint } = link
    const via = `${bare}_via_${link.fromColumns.join('_')}`
    const isOnly = perChild.get(link.from) === 1
    const isFirst = !seen.has(bare)
    seen.add(bare)
    const fieldName = claim([...(isOnly && isFirst ? [bare] : []), via, constraint, `${link.from}.${constraint}`])
    return {
      constraint,
      type: 'one-to-many',
      fieldName,
      names: [...new Set([fieldName, ...(isFirst ? [bare] : [])])],
      fromColumns: link.toColumns,
      to: link.from,
      toColumns: link.fromColumns,
    }
  }
  const bySchema = [...incoming].sort((a, b) => a.fromRank - b.fromRank)
  const named = new Map(bySchema.map((link) => [link, nameOf(link)]))
  return incoming.flatMap((link) => named.get(link) ?? [])
}
