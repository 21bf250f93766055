import type { Identity } from '../../core/identity.ts'
import { mayDo, mayExecute } from '../../db/schema/lookup.ts'
import type { Fn, Schema, SchemaCache, Table } from '../../db/schema/snapshot.ts'
import { columnsFor, type Viewer, viewerOf } from '../../db/schema/viewer.ts'
import { type Route, route } from '../../http/route.ts'
import { shownName, visibleTables } from './tools.ts'

export type LlmsDeps = {
  schema: Pick<SchemaCache, 'read'>
  appName: string
  publicBaseUrl: () => string
  /** agents.enabled */
  hasAgents: boolean
  /** api.anonymous is not `none`. */
  visitorsSeeSchema: boolean
}

const MAX_BYTES = 64 * 1024

/** The API of this database in short form (llmstxt.org), as far as the caller sees it. */
export const llmsRoute = (deps: LlmsDeps): Route =>
  route('GET /llms.txt', {
    summary: 'The API of this database in short form, for language models',
    auth: 'optional',
    leastRole: 'viewer',
    access: 'read',
    openToVisitors: true,
    limit: 'api',
    answers: { 200: { content: 'text/plain' } },
    handle: ({ who }) => ({
      status: 200,
      headers: { 'Content-Type': 'text/plain; charset=utf-8', Vary: 'Authorization' },
      content: llmsText(deps, who),
    }),
  })

function llmsText(deps: LlmsDeps, who: Identity): string {
  const isShown = who.kind !== 'anonymous' || deps.visitorsSeeSchema
  const viewer = viewerOf(who)
  const schema = deps.schema.read()
  const lines = [
    ...head(deps),
    ...(isShown ? tablesOf(schema, viewer) : []),
    ...(isShown ? functionsOf(schema, viewer) : []),
  ]
  const kept: string[] = []
  let bytes = 0
  for (const line of lines) {
    bytes += Buffer.byteLength(line) + 1
    if (bytes > MAX_BYTES) return [...kept, '', '(cut: GET /api/schema has all of it)', ''].join('\n')
    kept.push(line)
  }
  return [...kept, ''].join('\n')
}

function head({ appName, publicBaseUrl, hasAgents }: LlmsDeps): string[] {
  const base = publicBaseUrl()
  return [
    `# ${appName}`,
    '',
    '> An API over PostgreSQL tables: HTTP with JSON, under row-level security. What you see depends on your token.',
    '',
    `- Base: ${base}; send \`Authorization: Bearer <token>\` of \`POST /api/auth/login\` \`{email, password}\`, or an API key.`,
    '- List `GET /api/collections/{table}?filter=&sort=&page=&perPage=&fields=&expand=`, read `GET /api/collections/{table}/{id}`.',
    '- Create `POST /api/collections/{table}`, change `PATCH …/{id}`, delete `DELETE …/{id}`; `Dry-Run: true` tries a write.',
    "- Filters: `views > 10 AND (title ~ '%a%' OR author.name = 'Bo')`; sort: `-created_at,id`.",
    '- Functions: `POST /api/rpc/{function}` with arguments by name.',
    `- [OpenAPI](${base}/api/openapi.json): all routes and types`,
    ...(hasAgents ? [`- [MCP](${base}/api/mcp): the same as tools, for agents`] : []),
  ]
}

function tablesOf(schema: Schema, viewer: Viewer): string[] {
  const tables = visibleTables(schema, viewer)
  return tables.length === 0 ? [] : ['', '## Tables', ...tables.map((table) => tableLine(schema, table, viewer))]
}

function tableLine(schema: Schema, table: Table, viewer: Viewer): string {
  const columns = columnsFor(table, viewer.role).map(
    ({ name, type, isPrimaryKey }) => `${name} ${type}${isPrimaryKey ? ' key' : ''}`,
  )
  const may = (['insert', 'update', 'delete'] as const).filter((privilege) => mayDo(table, viewer.role, privilege))
  const comment = table.comment === undefined ? '' : ` ${oneLine(table.comment)}`
  return `- ${shownName(schema, table)}(${columns.join(', ')})${may.length > 0 ? '' : ' read only'}${comment}`
}

function functionsOf(schema: Schema, viewer: Viewer): string[] {
  if (viewer.allowedTables.length > 0) return []
  const functions = [...schema.functions.values()].flat().filter((fn) => mayExecute(fn, viewer.role))
  return functions.length === 0 ? [] : ['', '## Functions', ...functions.map(functionLine)]
}

const functionLine = ({ name, parameters, returnType, comment }: Fn): string =>
  `- ${name}(${parameters.map((one) => `${one.name} ${one.type}`).join(', ')}) → ${returnType}${comment === undefined ? '' : ` ${oneLine(comment)}`}`

const oneLine = (text: string): string => `– ${text.replace(/\s+/g, ' ').slice(0, 200)}`
