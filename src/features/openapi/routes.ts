import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Identity } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { Schema, SchemaCache } from '../../db/schema/snapshot.ts'
import { type Viewer, viewerOf } from '../../db/schema/viewer.ts'
import { isNotModified } from '../../http/files/conditions.ts'
import { type Route, route } from '../../http/route.ts'
import { docsPage } from './docs-page.ts'
import { openApiDocument } from './document.ts'

export type OpenApiDeps = {
  schema: Pick<SchemaCache, 'read'>
  /** All routes of the server except those of this feature. */
  routes: readonly Route[]
  /** Whether callers without a token see tables and functions. */
  anonymousSeesSchema: boolean
  appName: string
  version: string
  publicBaseUrl: () => string
}

type CachedDocument = { content: Buffer; etag: string; modifiedAt: Date }

/** There is a document per table list of an API key; the LRU order keeps the common ones. */
const MAX_DOCUMENTS = 20

export function createOpenApi(deps: OpenApiDeps): { routes: Route[] } {
  const perSnapshot = new WeakMap<Schema, LRUCache<string, Promise<CachedDocument>>>()

  const documentFor = (who: Identity): Promise<CachedDocument> => {
    const snapshot = deps.schema.read()
    const hidesSchema = who.kind === 'anonymous' && !deps.anonymousSeesSchema
    const viewer = viewerOf(who)
    const documents = perSnapshot.get(snapshot) ?? new LRUCache<string, Promise<CachedDocument>>({ max: MAX_DOCUMENTS })
    perSnapshot.set(snapshot, documents)
    const key = JSON.stringify([hidesSchema, viewer.role, [...viewer.allowedTables].sort()])
    const made = documents.get(key) ?? make(hidesSchema ? undefined : snapshot, viewer, snapshot.builtAt)
    documents.set(key, made)
    // Failures are not cached.
    made.catch(() => documents.delete(key))
    return made
  }

  const make = async (schema: Schema | undefined, viewer: Viewer, modifiedAt: Date): Promise<CachedDocument> => {
    const text = await openApiDocument({
      routes: [...deps.routes, ...routes],
      schema,
      viewer,
      info: { title: deps.appName, version: deps.version },
      server: deps.publicBaseUrl(),
    })
    const content = Buffer.from(text)
    return { content, etag: `"${createHash('sha256').update(content).digest('base64url')}"`, modifiedAt }
  }

  const routes: Route[] = [
    route('GET /api/openapi.json', {
      summary: 'This API as OpenAPI 3.1, with the tables and functions the caller may use',
      auth: 'optional',
      access: 'read',
      openToVisitors: true,
      answers: { 200: t.open(t.object({ openapi: t.string(), paths: t.row })), 304: null },
      handle: async ({ who, headers }) => {
        const made = await documentFor(who)
        const common = { ETag: made.etag, 'Cache-Control': 'no-cache', Vary: 'Authorization' }
        if (isNotModified(headers, made)) return { status: 304, headers: common }
        return { status: 200, headers: { ...common, 'Content-Type': 'application/json' }, content: made.content }
      },
    }),
    route('GET /api/docs', {
      summary: 'This reference, for reading',
      auth: 'none',
      answers: { 200: { content: 'text/html' } },
      handle: () => docsPage(deps.appName),
    }),
  ]
  return { routes }
}
