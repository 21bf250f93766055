import type { DocumentNode, GraphQLObjectType } from 'graphql'
import { badRequest } from '../../core/errors.ts'
import { isMissingOperator } from '../../db/pg-errors.ts'
import type { LivePlan } from '../../db/rows/live-query.ts'
import { Slots } from '../../db/sql.ts'
import type { Operation } from './document/document.ts'
import type { Variables } from './document/variables.ts'
import { type Compilation, compileLive } from './query.ts'
import { meaningOf, mergedFields, selectionOf } from './selection.ts'
import type { TypeSystem } from './type-system.ts'

/** A document that is valid for the tables of its caller. */
export type Prepared = { readonly c: Compilation; readonly system: TypeSystem; readonly document: DocumentNode }

const notOne = () => badRequest('a subscription has exactly one field', 'invalid_document')

/** The key of the one field that a subscription has (GraphQL specification, section 5.2.3). */
export function fieldOf(operation: Operation, variables: Variables): string {
  const [only, ...others] = mergedFields([operation.node.selectionSet], operation, variables).keys()
  if (only === undefined || others.length > 0) throw notOne()
  return only
}

/** Whichever table it reads changes, it is read again; what is sent is the whole answer. */
export function planSubscription({ c, system }: Prepared): LivePlan {
  const root = system.schema.getSubscriptionType() as GraphQLObjectType
  const [selected] = selectionOf([c.operation.node.selectionSet], root, c.operation, c.variables)
  const meaning = selected?.field && meaningOf(selected.field)
  if (!selected || meaning?.kind !== 'rows') throw notOne()
  const statement = compileLive(selected, meaning.of, c, new Slots().put([])).textAlone()
  return {
    tables: [...c.tables].map(({ oid }) => oid),
    own: undefined,
    isKeyed: false,
    read: (digests) => statement.fill([digests]),
    explain: (error) =>
      isMissingOperator(error) ? badRequest('operator is not supported by the column type', 'invalid_filter') : error,
  }
}
