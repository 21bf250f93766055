import type { FieldErrors } from '../../core/errors.ts'
import { nearestName } from '../../core/nearest.ts'
import { isVisible, mayExecute } from './lookup.ts'
import type { Schema, Table } from './snapshot.ts'
import { columnsFor, isAllowed, relationFor, type Viewer } from './viewer.ts'

type Hint = { data?: FieldErrors }

const hint = (given: string, candidates: Iterable<string>): Hint => {
  const message = nearestName(given, candidates)
  return message === undefined ? {} : { data: { did_you_mean: { code: 'did_you_mean', message } } }
}

/** As a request would name it: without the schema where that is the first. */
const labelIn = ({ schemas }: Schema, schema: string, name: string): string =>
  schema === schemas[0] ? name : `${schema}.${name}`

/** The collection that was probably meant, of those that this viewer may use. */
export function nearTable(schema: Schema, given: string, viewer: Viewer): Hint {
  const seen = [...schema.tables.values()].filter(
    (table) => isVisible(table, viewer.role) && isAllowed(schema, table, viewer),
  )
  return hint(
    given,
    seen.map((table) => labelIn(schema, table.schema, table.name)),
  )
}

export function nearFunction(schema: Schema, given: string, { role }: Viewer): Hint {
  const names = [...schema.functions].flatMap(([key, overloads]) => {
    if (!overloads.some((fn) => mayExecute(fn, role))) return []
    const first = `${schema.schemas[0]}.`
    return key.startsWith(first) ? key.slice(first.length) : key
  })
  return hint(given, names)
}

export const nearColumn = (table: Table, given: string, { role }: Viewer): Hint =>
  hint(
    given,
    columnsFor(table, role).map(({ name }) => name),
  )

export function nearRelation(schema: Schema, table: Table, given: string, viewer: Viewer): Hint {
  const names = table.relations.flatMap((relation) => {
    const step = relationFor(schema, table, relation.fieldName, viewer.role)
    return step && isAllowed(schema, step.target, viewer) ? [relation.fieldName, ...relation.names] : []
  })
  return hint(given, new Set(names))
}
