import type { CancelSignal } from '../../core/cancel-signal.ts'
import type { Identity } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import type { Schema } from '../../db/schema/snapshot.ts'

export type GraphqlRequest = {
  query: string
  variables: Readonly<Record<string, unknown>>
  operationName: string | undefined
}
export type Caller = {
  readonly who: Identity
  readonly requestId: string
  readonly cancelSignal: CancelSignal
  readonly headers?: Readonly<Record<string, string | undefined>>
}
/** Where queries may be read, and what a mutation is answered with. */
export type GraphReplicas = {
  from(who: Identity, position: string | undefined, schema: Schema, oids: readonly number[]): Pick<Db, 'fly'>
  /** `Svc-Position` */
  wrote(who: Identity): string | undefined
}
