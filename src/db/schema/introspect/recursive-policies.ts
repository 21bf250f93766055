import type { Catalog } from './catalogue.ts'
import { groupBy, groupKey } from './group.ts'

type Policy = Catalog['policies'][number]

/** PostgreSQL refuses to read a table that it has to read to decide who may read it. */
export function recursivePolicies({ policies, tables }: Catalog): string[] {
  const guarded = new Map(tables.filter(({ rls }) => rls).map(({ oid, schema, name }) => [oid, groupKey(schema, name)]))
  const asking = policies.filter(({ table, command }) => guarded.has(table) && /^(?:SELECT|ALL)$/.test(command))
  const shown = (oid: number): string => guarded.get(oid) ?? ''
  const found = new Set<string>()
  for (const role of ['svc_anon', 'svc_authenticated']) {
    const own = asking.filter(({ callers }) => callers.includes(role))
    // Without a permissive one nothing is asked: no row passes.
    const open = new Set(own.flatMap(({ table, permissive }) => (permissive ? table : [])))
    const asked = groupBy(
      own.filter(({ table, reads }) => reads.length > 0 && open.has(table)),
      ({ table }) => table,
    )
    for (const [table, some] of asked) {
      for (const { name, reads } of some) {
        const first = reads.find((read) => leadsTo(table, read, asked))
        if (first === undefined) continue
        const again = first === table ? '' : `, whose policies lead back to ${shown(table)}`
        found.add(
          `policy ${name} of ${shown(table)} fails for all whom it is for, because it reads ${shown(first)}${again}: ask a SECURITY DEFINER function instead`,
        )
      }
    }
  }
  return [...found]
}

function leadsTo(to: number, from: number, asked: ReadonlyMap<number, readonly Policy[]>): boolean {
  const reached = new Set([from])
  // The iteration includes what is added to the set meanwhile.
  for (const table of reached)
    for (const { reads } of asked.get(table) ?? []) for (const read of reads) reached.add(read)
  return reached.has(to)
}
