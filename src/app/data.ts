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
  const changed = () => changeLog.wake()
  return {
    features: [
      createSchemaFeature({ schema }),
      createCollections({ db, schema, changed }),
      createRpc({ db, schema, changed }),
      createRls({ db, schema, schemas: config.api.schemas }),
    ],
  }
}
