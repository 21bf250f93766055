import * as t from '../../core/json-type.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import { viewerKey, viewerOf } from '../../db/schema/viewer.ts'
import { SnapshotDocuments } from '../../http/files/snapshot-documents.ts'
import { type Call, type Reply, type Route, route } from '../../http/route.ts'
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
  hasDashboard: () => Promise<boolean>
}

export function createOpenApi(deps: OpenApiDeps): { routes: Route[] } {
  const documents = new SnapshotDocuments()

  function documentReply({ who, headers }: Call): Promise<Reply> {
    const schema = deps.schema.read()
    const hidesSchema = who.kind === 'anonymous' && !deps.anonymousSeesSchema
    const viewer = viewerOf(who)
    const key = `${hidesSchema} ${viewerKey(viewer)}`
    return documents.reply(headers, schema, key, () =>
      openApiDocument({
        routes: [...deps.routes, ...routes],
        schema: hidesSchema ? undefined : schema,
        viewer,
        info: { title: deps.appName, version: deps.version },
        server: deps.publicBaseUrl(),
      }),
    )
  }

  const routes: Route[] = [
    route('GET /api/openapi.json', {
      summary: 'This API as OpenAPI 3.1, with the tables and functions the caller may use',
      auth: 'optional',
      leastRole: 'viewer',
      access: 'read',
      openToVisitors: true,
      answers: { 200: t.open(t.object({ openapi: t.string(), paths: t.row })), 304: null },
      handle: documentReply,
    }),
    route('GET /api/docs', {
      summary: 'This reference, for reading',
      auth: 'none',
      answers: { 200: { content: 'text/html' }, 302: null },
      handle: async () =>
        (await deps.hasDashboard()) ? { status: 302, headers: { Location: '/admin/api' } } : docsPage(deps.appName),
    }),
  ]
  return { routes }
}
