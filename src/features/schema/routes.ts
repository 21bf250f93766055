import { LRUCache } from 'lru-cache'
import type { Identity } from '../../core/identity.ts'
import type { Schema, SchemaCache } from '../../db/schema/snapshot.ts'
import { jsonText, type Route, route } from '../../http/route.ts'
import { schemaAnswer } from './answers.ts'
import { type Audience, schemaDocument } from './document.ts'

/** Each API key with a table list of its own has a document of its own; the two everybody reads stay by being used. */
const LIMITS = { maxSize: 64 * 1024 * 1024, sizeCalculation: (text: string) => text.length, max: 100 }

export function createSchemaFeature({ schema }: { schema: Pick<SchemaCache, 'read'> }): { routes: Route[] } {
  const perSnapshot = new WeakMap<Schema, LRUCache<string, string>>()

  const documentFor = (snapshot: Schema, audience: Audience): string => {
    const documents = perSnapshot.get(snapshot) ?? new LRUCache<string, string>(LIMITS)
    perSnapshot.set(snapshot, documents)
    const key = JSON.stringify(audience)
    const known = documents.get(key)
    if (known !== undefined) return known
    const made = schemaDocument(snapshot, audience)
    documents.set(key, made)
    return made
  }

  return {
    routes: [
      route('GET /api/schema', {
        summary: 'Tables, columns, relations and functions that requests can reach',
        auth: 'optional',
        access: 'read',
        answers: { 200: schemaAnswer },
        handle: async ({ who }) => jsonText(200, documentFor(schema.read(), audienceOf(who))),
      }),
    ],
  }
}

const audienceOf = (who: Identity): Audience => ({
  admin: who.kind === 'admin',
  tables: who.kind === 'key' ? [...who.grant.tables].sort() : [],
})
