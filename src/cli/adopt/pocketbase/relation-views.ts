import type { Note, PlannedTable } from '../plan.ts'
import type { Collection } from './collections.ts'
import { quoted, type World } from './rule-sql.ts'
import type { TargetView } from './views.ts'

type RelationViews = { views: TargetView[]; planned: PlannedTable[]; notes: Note[] }

/** Relations to several records as rows, for joins: `<collection>_<field>` with the rights of who reads it. */
export function relationViewsOf(collections: readonly Collection[], world: World): RelationViews {
  const found: RelationViews = { views: [], planned: [], notes: [] }
  const taken = new Set(collections.map(({ name }) => name))
  for (const collection of collections) {
    if (collection.type === 'view') continue
    for (const field of collection.fields) {
      const target = field.type === 'relation' && field.isMultiple ? world.byId.get(field.target) : undefined
      if (!target) continue
      const name = `${collection.name}_${field.name}`
      if (taken.has(name) || Buffer.byteLength(name) > 63) {
        found.notes.push({ level: 'skipped', what: `view ${name}`, why: 'its name is too long or another’s' })
        continue
      }
      taken.add(name)
      const at = `public.${quoted(name)}`
      found.views.push({
        name,
        statements: [
          `create view ${at} with (security_invoker = true) as select svc_row.id as record_id, svc_one.id as related_id, svc_one.place
           from public.${quoted(collection.name)} svc_row cross join lateral unnest(svc_row.${quoted(field.name)}) with ordinality svc_one(id, place)`,
          // The view reads with the rights of its caller, who may be barred from rows or from the column.
          `grant select on ${at} to svc_anon, svc_authenticated`,
        ],
      })
      found.planned.push({
        name,
        rows: 0,
        from: `relation ${collection.name}.${field.name}`,
        columns: [
          { name: 'record_id', type: 'text', from: `${collection.name}.id` },
          { name: 'related_id', type: 'text', from: `${target.name}.id` },
          { name: 'place', type: 'bigint', from: 'the order' },
        ],
      })
    }
  }
  return found
}
