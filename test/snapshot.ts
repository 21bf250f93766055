import { openSchemaCache } from '../src/db/schema/cache.ts'
import type { Schema } from '../src/db/schema/snapshot.ts'
import { openPool } from '../src/db/wire/pool.ts'

/** What a database looks like to a server. */
export async function snapshotOf(databaseUrl: string): Promise<Schema> {
  const observe = () => {}
  const db = await openPool({
    url: databaseUrl,
    maxConns: 2,
    minConns: 1,
    acquireTimeoutMs: 60_000,
    preparedStatements: true,
    schemas: ['public'],
    statementTimeoutMs: 60_000,
    observe,
  })
  const schema = await openSchemaCache({ db, schemas: ['public'], observe })
  const snapshot = schema.read()
  await schema.stop()
  await db.stop()
  return snapshot
}
