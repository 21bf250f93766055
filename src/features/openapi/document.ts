import * as t from '../../core/json-type.ts'
import { TimeSlice } from '../../core/time-slice.ts'
import { isVisible } from '../../db/schema/lookup.ts'
import type { Schema, Table } from '../../db/schema/snapshot.ts'
import { isAllowed, type Viewer } from '../../db/schema/viewer.ts'
import { dryRunAnswer, type Route } from '../../http/route.ts'
import { ComponentNames } from './component-names.ts'
import { type FunctionEntry, functionEntry } from './function.ts'
import { DRY_RUN, jsonContent, operationOf, pathOf, queryParameter } from './operation.ts'
import { tableEntries } from './table.ts'

export type DocumentInput = {
  routes: readonly Route[]
  /** undefined: the routes alone. */
  schema: Schema | undefined
  viewer: Viewer
  info: { title: string; version: string }
  server: string
}

/** The OpenAPI 3.1 document as JSON text, in pieces. Yields to other requests on a large schema. */
export async function openApiDocument({ routes, schema, viewer, info, server }: DocumentInput): Promise<string[]> {
  const paths = new Map<string, string>()
  const components = new Map<string, string>([
    ['Failure', JSON.stringify(t.failure)],
    [DRY_RUN, JSON.stringify(dryRunAnswer)],
  ])
  const ids = new Set<string>()
  const put = (path: string, item: object): void => {
    const named = Object.entries(item).map(([method, operation]) => {
      return [method, { operationId: operationId(method, path, ids), ...operation }]
    })
    paths.set(path, JSON.stringify(Object.fromEntries(named)))
  }
  for (const [path, item] of routeItems(routes)) put(path, item)

  const slice = new TimeSlice()
  const ofTables = routes.filter(({ path }) => path.startsWith('/api/collections/{table}'))
  const names = new ComponentNames()
  for (const table of schema ? visibleTables(schema, viewer) : []) {
    const made = tableEntries(schema as Schema, table, viewer, { names, routes: ofTables })
    for (const [name, component] of made.components) components.set(name, JSON.stringify(component))
    for (const [path, item] of made.paths) put(path, item)
    await slice.yieldIfOver()
  }
  for (const { path, item, enums } of schema ? functionItems(schema, viewer, names) : []) {
    for (const [name, component] of enums) components.set(name, JSON.stringify(component))
    put(path, item)
    await slice.yieldIfOver()
  }
  const head = { openapi: '3.1.0', info, servers: [{ url: server }] }
  return [
    `${JSON.stringify(head).slice(0, -1)},"paths":{`,
    ...membersOf(paths),
    '},"components":{"schemas":{',
    ...membersOf(components),
    `},${restOf(ofTables)}}}`,
  ]
}

/** `GET /api/collections/{table}` → `getCollectionsTable`; generators of clients make names of methods from it. */
function operationId(method: string, path: string, taken: Set<string>): string {
  const words = [method, ...path.split(/[^A-Za-z0-9]+/).filter((word) => word !== '' && word !== 'api')]
  const wanted = words.map((word, i) => (i === 0 ? word : word.charAt(0).toUpperCase() + word.slice(1))).join('')
  let id = wanted
  for (let n = 2; taken.has(id); n++) id = `${wanted}${n}`
  taken.add(id)
  return id
}

const membersOf = (entries: ReadonlyMap<string, string>): string[] =>
  [...entries].map(([name, text], i) => `${i === 0 ? '' : ','}${JSON.stringify(name)}:${text}`)

function routeItems(routes: readonly Route[]): Map<string, Record<string, object>> {
  const items = new Map<string, Record<string, object>>()
  for (const route of routes) {
    const item = items.get(pathOf(route.path)) ?? {}
    item[route.method.toLowerCase()] = operationOf(route)
    items.set(pathOf(route.path), item)
  }
  return items
}

function* visibleTables(schema: Schema, viewer: Viewer): Generator<Table> {
  for (const table of schema.tables.values()) {
    if (isVisible(table, viewer.role) && isAllowed(schema, table, viewer)) yield table
  }
}

/** An API key limited to tables cannot call functions. */
function* functionItems(schema: Schema, viewer: Viewer, names: ComponentNames): Generator<FunctionEntry> {
  if (viewer.allowedTables.length > 0) return
  for (const overloads of schema.functions.values()) {
    const entry = functionEntry(schema, overloads, viewer.role, names)
    if (entry) yield entry
  }
}

/** Components that the paths of all tables share. */
function restOf(routes: readonly Route[]): string {
  const queries = Object.assign({}, ...routes.map(({ contract }) => contract.query)) as t.Fields
  const id = routes.flatMap(({ contract }) => contract.params?.['id'] ?? [])[0] ?? t.string()
  const parameters = Object.fromEntries(Object.entries(queries).map((entry) => [entry[0], queryParameter(entry)]))
  return JSON.stringify({
    parameters: { id: { name: 'id', in: 'path', required: true, schema: id }, ...parameters },
    responses: {
      Failure: { description: 'Failure', content: jsonContent({ $ref: '#/components/schemas/Failure' }) },
    },
    securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
  }).slice(1, -1)
}
