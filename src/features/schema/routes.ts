import type { Identity } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import { SnapshotDocuments } from '../../http/files/snapshot-documents.ts'
import { type Route, route } from '../../http/route.ts'
import { schemaAnswer } from './answers.ts'
import { type Audience, schemaDocument } from './document.ts'
import { tableFiguresRoute } from './figures.ts'

export function createSchemaFeature({ schema, db }: { schema: Pick<SchemaCache, 'read'>; db: Db }): {
  routes: Route[]
} {
  const documents = new SnapshotDocuments()
  return {
    routes: [
      route('GET /api/schema', {
        summary: 'Tables, columns, relations and functions that requests can reach',
        auth: 'optional',
        leastRole: 'viewer',
        access: 'read',
        impersonable: true,
        limit: 'api',
        answers: { 200: schemaAnswer, 304: null },
        handle: ({ who, headers }) => {
          const [snapshot, audience] = [schema.read(), audienceOf(who)]
          return documents.reply(headers, snapshot, JSON.stringify(audience), () => schemaDocument(snapshot, audience))
        },
      }),
      tableFiguresRoute(db),
    ],
  }
}

const audienceOf = (who: Identity): Audience => ({
  admin: who.kind === 'admin',
  tables: who.kind === 'key' ? [...who.grant.tables].sort() : [],
})
