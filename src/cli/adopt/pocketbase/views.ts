import type { Note, PlannedPolicy, PlannedTable } from '../plan.ts'
import type { Collection } from './collections.ts'
import { bothOf } from './policies.ts'
import { RuleError } from './rule-parser.ts'
import { compileRule, quoted, type World } from './rule-sql.ts'
import { translateView, ViewError } from './view-sql.ts'

export type TargetView = { name: string; statements: readonly string[] }
type Views = { views: TargetView[]; planned: PlannedTable[]; policies: PlannedPolicy[]; notes: Note[] }

/** View collections whose query is plain, as views that read with the rights of who asks, their rule inside. */
export function viewsOf(collections: readonly Collection[], world: World): Views {
  const found: Views = { views: [], planned: [], policies: [], notes: [] }
  for (const collection of collections) {
    const { name } = collection
    try {
      const { sql, names } = translateView(collection.query, world.byName)
      const missing = collection.fields.find((field) => !names.includes(field.name))
      if (missing) throw new ViewError(`${missing.name} is none of its columns`)
      const rule = ruleOf(collection, world, found.notes)
      found.views.push({
        name,
        statements: [
          `create view public.${quoted(name)} with (security_invoker = true) as select svc_view.* from (${sql}) svc_view${rule?.sql === undefined ? '' : ` where ${rule.sql}`}`,
          ...(rule ? [`grant select on public.${quoted(name)} to svc_anon, svc_authenticated`] : []),
        ],
      })
      found.planned.push({
        name,
        // Counting them would run the query, which may take for ever.
        rows: 0,
        from: `view collection ${name}`,
        columns: names.map((one) => ({
          name: one,
          type: 'as selected',
          from: collection.fields.find((field) => field.name === one)?.from ?? 'text',
        })),
      })
      if (rule)
        found.policies.push({
          table: name,
          name: 'inside the view',
          command: 'select',
          using: rule.sql ?? 'true',
          check: null,
          from: rule.from,
        })
      found.notes.push({
        level: 'changed',
        what: name,
        why: 'a view here reads with the rights of who asks: rows that its tables hide from a caller are not in it',
      })
    } catch (error) {
      if (!(error instanceof ViewError)) throw error
      found.notes.push({
        level: 'skipped',
        what: name,
        why: `a view collection whose query is not plain (${error.message}): write it as a view with security_invoker, its rule inside`,
      })
    }
  }
  return found
}

/** Undefined: closed. */
function ruleOf(
  collection: Collection,
  world: World,
  notes: Note[],
): { sql: string | undefined; from: string } | undefined {
  const { name, rules } = collection
  const rule = bothOf(rules.listRule, rules.viewRule)
  if (rules.listRule !== rules.viewRule)
    notes.push({
      level: 'changed',
      what: `${name}.listRule, ${name}.viewRule`,
      why: 'they differ, and reading has one condition here: both must hold',
    })
  if (rule === null) return undefined
  if (rule === '') return { sql: undefined, from: '' }
  try {
    const compiled = compileRule(rule, collection, world, { row: 'svc_view', body: undefined })
    if (!compiled.needsFunction) return { sql: compiled.sql, from: rule }
    notes.push({ level: 'closed', what: `${name}.select`, why: `its rule reads other collections: ${rule}` })
  } catch (error) {
    if (!(error instanceof RuleError)) throw error
    notes.push({ level: 'closed', what: `${name}.select`, why: `${error.message}: ${rule}` })
  }
  return undefined
}
