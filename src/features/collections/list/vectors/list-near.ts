import { type Db, type FlyOptions, READS, type Relayed } from '../../../../db/db.ts'
import type { KnownStatements } from '../../../../db/rows/known-statements.ts'
import type { Place } from '../../../../db/rows/place.ts'
import type { Sql } from '../../../../db/sql.ts'
import type { Call } from '../../../../http/route.ts'
import { explainList, SLOW } from '../list.ts'
import type { ListMeans } from '../stages/stage.ts'
import type { VectorQuery } from './parse.ts'
import { type Embed, vectorStatements } from './vectors.ts'

export type NearReader = {
  readonly db: Db
  readonly known: KnownStatements
  readonly means: ListMeans
  /** Undefined: no provider is configured. */
  readonly embed: Embed | undefined
}

/** The rows that are nearest to something; see vectorStatements. */
export async function listNear(
  { db, known, means, embed }: NearReader,
  call: Call,
  place: Place,
  near: VectorQuery,
): Promise<Relayed> {
  const found = await vectorStatements(known, call.query, near, place, { ...means, embed })
  const options: FlyOptions = { ...(found.mayBeSlow ? SLOW : READS), signal: call.cancelSignal }
  const relay = (statements: [Sql, ...Sql[]]): Promise<Relayed | null> =>
    db.relay(call.who, statements, options).catch((error: unknown) => {
      throw explainList(error, found.asked)
    })
  return (await relay(found.statements)) ?? (found.again ? await relay(found.again()) : null) ?? ''
}
