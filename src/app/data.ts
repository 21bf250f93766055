import type { Config } from '../config/config.ts'
import { createCollections } from '../features/collections/routes.ts'
import { watchTables } from '../features/collections/watched-tables.ts'
import { createRls } from '../features/rls/routes.ts'
import { createRpc } from '../features/rpc/routes.ts'
import { createSchemaFeature } from '../features/schema/routes.ts'
import type { Platform } from './platform.ts'

/** The user's own tables and functions. */
export async function createData(config: Config, { db, schema, changeLog, observe }: Platform) {
  await watchTables({ db, schema, observe }, config.realtime.watch)
  return {
    features: [
      createSchemaFeature({ schema }),
      createCollections({ db, schema, log: changeLog }),
      createRpc({ db, schema, log: changeLog }),
      createRls({ db, schema, schemas: config.api.schemas }),
    ],
  }
}
