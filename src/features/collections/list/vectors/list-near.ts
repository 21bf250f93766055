import type { Db, Relayed, Statements } from '../../../../db/db.ts'
import type { SqlCache } from '../../../../db/rows/sql-cache.ts'
import type { TableView } from '../../../../db/rows/table-view.ts'
import type { Call } from '../../../../http/route.ts'
import { explainList, READ, SLOW } from '../list.ts'
import type { ListDeps } from '../stages/stage.ts'
import type { VectorQuery } from './parse.ts'
import { type Embed, vectorStatements } from './statements.ts'

export type NearReader = {
  readonly db: Db
  readonly sqlCache: SqlCache
  readonly listDeps: ListDeps
  /** Undefined: no provider is configured. */
  readonly embed: Embed | undefined
}

/** Lists the rows nearest to a vector or a text. See vectorStatements. */
export async function listNear(
  { db, sqlCache, listDeps, embed }: NearReader,
  call: Call,
  target: TableView,
  near: VectorQuery,
): Promise<Relayed> {
  const found = await vectorStatements(sqlCache, call.query, near, target, { ...listDeps, embed })
  const options = { ...(found.mayBeSlow ? SLOW : READ), signal: call.cancelSignal, as: 'bytes' } as const
  const read = async (statements: Statements): Promise<Relayed | null> => {
    const answers = await db.fly(call.who, statements, options).catch((error: unknown) => {
      throw explainList(error, found.listQuery)
    })
    return answers.at(-1) ?? null
  }
  return (await read(found.statements)) ?? (found.again ? await read(found.again()) : null) ?? ''
}
