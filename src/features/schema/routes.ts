import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Identity } from '../../core/identity.ts'
import type { Schema, SchemaCache } from '../../db/schema/snapshot.ts'
import { isNotModified } from '../../http/files/conditions.ts'
import { jsonText, type Route, route } from '../../http/route.ts'
import { schemaAnswer } from './answers.ts'
import { type Audience, schemaDocument } from './document.ts'

type CachedDocument = { text: string; etag: string; modifiedAt: Date }

/** There is a document per table list of an API key; the LRU order keeps the common ones. */
const MAX_DOCUMENTS = 20

export function createSchemaFeature({ schema }: { schema: Pick<SchemaCache, 'read'> }): { routes: Route[] } {
  const perSnapshot = new WeakMap<Schema, LRUCache<string, Promise<CachedDocument>>>()

  const documentFor = (snapshot: Schema, audience: Audience): Promise<CachedDocument> => {
    const documents = perSnapshot.get(snapshot) ?? new LRUCache<string, Promise<CachedDocument>>({ max: MAX_DOCUMENTS })
    perSnapshot.set(snapshot, documents)
    const key = JSON.stringify(audience)
    const made = documents.get(key) ?? make(snapshot, audience)
    documents.set(key, made)
    // Failures are not cached.
    made.catch(() => documents.delete(key))
    return made
  }

  const make = async (snapshot: Schema, audience: Audience): Promise<CachedDocument> => {
    const text = await schemaDocument(snapshot, audience)
    return { text, etag: `"${createHash('sha256').update(text).digest('base64url')}"`, modifiedAt: snapshot.builtAt }
  }

  return {
    routes: [
      route('GET /api/schema', {
        summary: 'Tables, columns, relations and functions that requests can reach',
        auth: 'optional',
        access: 'read',
        limit: 'api',
        answers: { 200: schemaAnswer, 304: null },
        handle: async ({ who, headers }) => {
          const made = await documentFor(schema.read(), audienceOf(who))
          const common = { ETag: made.etag, 'Cache-Control': 'no-cache', Vary: 'Authorization' }
          if (isNotModified(headers, made)) return { status: 304, headers: common }
          return { ...jsonText(200, made.text), headers: common }
        },
      }),
    ],
  }
}

const audienceOf = (who: Identity): Audience => ({
  admin: who.kind === 'admin',
  tables: who.kind === 'key' ? [...who.grant.tables].sort() : [],
})
