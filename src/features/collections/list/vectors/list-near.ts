import type { Db, Relayed, Statements } from '../../../../db/db.ts'
import type { KnownStatements } from '../../../../db/rows/known-statements.ts'
import type { Place } from '../../../../db/rows/place.ts'
import type { Call } from '../../../../http/route.ts'
import { explainList, READ, SLOW } from '../list.ts'
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
  const options = { ...(found.mayBeSlow ? SLOW : READ), signal: call.cancelSignal, as: 'bytes' } as const
  const read = async (statements: Statements): Promise<Relayed | null> => {
    const answers = await db.fly(call.who, statements, options).catch((error: unknown) => {
      throw explainList(error, found.asked)
    })
    return answers.at(-1) ?? null
  }
  return (await read(found.statements)) ?? (found.again ? await read(found.again()) : null) ?? ''
}
