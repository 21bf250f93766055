import { openSchemaCache } from '../../src/db/schema/introspect/cache.ts'
import type { Schema } from '../../src/db/schema/snapshot.ts'
import { poolOn } from './pool.ts'

/** What a database looks like to a server. */
export async function snapshotOf(databaseUrl: string): Promise<Schema> {
  const observe = () => {}
  const db = await poolOn(databaseUrl, { maxConns: 2 })
  const schema = await openSchemaCache({ db, schemas: ['public'], observe })
  const snapshot = schema.read()
  await schema.stop()
  await db.stop()
  return snapshot
}
