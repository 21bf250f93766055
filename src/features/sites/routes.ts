import { AppError, badRequest, found, notFound } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { parsePage } from '../../core/page.ts'
import { audited, before, MADE_RECORD } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import type { Feature } from '../../http/feature.ts'
import type { ByteRange } from '../../http/files/conditions.ts'
import type { ByteSource } from '../../http/files/source.ts'
import type { HostedSites } from '../../http/pipeline.ts'
import { type Call, jsonText, noContent, type Reply, type Route, route } from '../../http/route.ts'
import { Deploys, type StoredBytes } from './deploys.ts'
import { isSlug, SiteHosts } from './hosts.ts'
import { Serving } from './serving.ts'
import { addSite, changeSite, deleteSite, oneSite, sitesPage } from './sql.ts'

type Received = { name: string; contentType: string; blob: StoredBytes }

type Deps = {
  db: Db
  publicBaseUrl: () => string
  addBlob: (blob: StoredBytes) => Sql
  readBlob: (id: string, range: ByteRange) => Promise<ByteSource | undefined>
  /** Receives a form with a file; `keep` writes the row that refers to it. */
  receive: <T>(call: Call, keep: (upload: Received) => Promise<T>) => Promise<T>
  isObjectName: (name: string) => boolean
  /** Throws while storage is switched off. */
  requiresStorage: () => void
}

const MAX_NAME = 255
const MAX_LISTED = 2_000
const MAX_ERROR = 2_000

const site = t.object({
  id: t.uuid(),
  name: t.string(),
  slug: t.string(),
  spaMode: t.boolean(),
  liveDeployId: t.optional(t.uuid()),
  createdAt: t.time(),
  updatedAt: t.time(),
})
const deploy = t.object({
  id: t.uuid(),
  siteId: t.uuid(),
  status: t.oneOf(['uploading', 'live', 'superseded', 'failed']),
  fileCount: t.integer(),
  totalBytes: t.integer(),
  errorMessage: t.optional(t.string()),
  createdAt: t.time(),
  updatedAt: t.time(),
})
const counts = { totalCount: t.integer(), page: t.integer(), perPage: t.integer() }
const paging = { page: t.integer(), perPage: t.integer() }
const ofSite = { auth: 'admin', params: { siteId: t.id('site') } } as const
const ofDeploy = { auth: 'admin', params: { siteId: t.id('site'), deployId: t.id('deploy') } } as const

export type Sites = Feature & { hosted: HostedSites }

/** Hosted sites: the admin routes and the public files. */
export function createSites(deps: Deps): Sites {
  const { db, requiresStorage } = deps
  const deploys = new Deploys(deps)
  const hosts = new SiteHosts(deps.publicBaseUrl)
  const serving = new Serving({ db, read: deps.readBlob })
  return {
    routes: [...siteRoutes(db), ...deployRoutes(deploys, { receive: deps.receive, requiresStorage })],
    hosted: {
      slugOf: (host) => hosts.slugOf(host),
      serve: (slug, path, call) => serving.serve(slug, path, call),
    },
  }
}

function siteRoutes(db: Db): Route[] {
  const requireSite = (text: string | null): string => found(text, 'site not found', 'site_not_found')
  return [
    route('GET /api/admin/sites', {
      summary: 'Sites, newest first',
      leastRole: 'viewer',
      auth: 'admin',
      query: paging,
      answers: { 200: t.object({ sites: t.array(site), ...counts }) },
      handle: async ({ query }) => jsonText(200, (await db.fly(SYSTEM, sitesPage(parsePage(query)))) ?? ''),
    }),
    route('POST /api/admin/sites', {
      summary: 'Make a site',
      leastRole: 'operator',
      auth: 'admin',
      audit: 'site.create',
      body: t.object({
        name: t.optional(t.string()),
        slug: t.optional(t.string()),
        spaMode: t.optional(t.boolean()),
      }),
      answers: { 201: site },
      handle: async (call) => {
        const { slug = '', spaMode = false } = call.body
        const name = siteName(call.body.name ?? '')
        if (slug === '') throw badRequest('site slug is required')
        if (!isSlug(slug)) throw badRequest('invalid site slug')
        const made = await db.fly(SYSTEM, audited(call.audit(), addSite({ name, slug, spaMode }), MADE_RECORD))
        if (made === null) throw new AppError('already_exists', 'site slug already taken')
        return jsonText(201, made)
      },
    }),
    route('GET /api/admin/sites/{siteId}', {
      summary: 'One site',
      leastRole: 'viewer',
      ...ofSite,
      answers: { 200: site },
      handle: async ({ params }) => jsonText(200, requireSite(await db.fly(SYSTEM, oneSite(params.siteId)))),
    }),
    route('PUT /api/admin/sites/{siteId}', {
      summary: 'Rename a site, or switch its fallback for single-page apps',
      leastRole: 'operator',
      ...ofSite,
      audit: 'site.update',
      body: t.object({ name: t.optional(t.string()), spaMode: t.optional(t.boolean()) }),
      answers: { 200: site },
      handle: async (call) => {
        const { body } = call
        const name = body.name === undefined ? null : siteName(body.name)
        const change = changeSite(call.params.siteId, { name, spaMode: body.spaMode ?? null })
        const noted = { ...MADE_RECORD, ...before(oneSite(call.params.siteId)) }
        return jsonText(200, requireSite(await db.fly(SYSTEM, audited(call.audit(), change, noted))))
      },
    }),
    route('DELETE /api/admin/sites/{siteId}', {
      summary: 'Delete a site with its deploys and files',
      leastRole: 'operator',
      ...ofSite,
      audit: 'site.delete',
      answers: { 204: null },
      handle: async (call) => {
        const { siteId } = call.params
        const deletion = audited(call.audit(), deleteSite(siteId), before(oneSite(siteId)))
        if ((await db.run(SYSTEM, deletion)) === 0) throw notFound('site not found', 'site_not_found')
        return noContent
      },
    }),
  ]
}

function siteName(given: string): string {
  const name = given.trim()
  if (name === '') throw badRequest('site name is required')
  if (name.length > MAX_NAME) throw badRequest(`name must be at most ${MAX_NAME} characters`)
  return name
}

function deployRoutes(deploys: Deploys, deps: Pick<Deps, 'receive' | 'requiresStorage'>): Route[] {
  const at = '/api/admin/sites/{siteId}/deploys'
  return [
    route(`GET ${at}`, {
      summary: 'Deploys of a site, newest first',
      leastRole: 'viewer',
      ...ofSite,
      query: paging,
      answers: { 200: t.object({ deploys: t.array(deploy), ...counts }) },
      handle: async ({ params, query }) => jsonText(200, await deploys.page(params.siteId, parsePage(query))),
    }),
    route(`POST ${at}`, {
      summary: 'Begin a deploy',
      leastRole: 'operator',
      ...ofSite,
      audit: 'deploy.create',
      bodyKind: 'none',
      answers: { 201: deploy },
      handle: async (call) => jsonText(201, await deploys.create(call.params.siteId, call)),
    }),
    route(`POST ${at}/rollback`, {
      summary: 'Make the previous live deploy live again',
      leastRole: 'operator',
      ...ofSite,
      audit: 'deploy.rollback',
      bodyKind: 'none',
      answers: { 200: deploy },
      handle: async (call) => jsonText(200, await deploys.rollback(call.params.siteId, call)),
    }),
    route(`GET ${at}/{deployId}`, {
      summary: 'One deploy',
      leastRole: 'viewer',
      ...ofDeploy,
      answers: { 200: deploy },
      handle: async ({ params }) => jsonText(200, await deploys.one(params.siteId, params.deployId)),
    }),
    route(`POST ${at}/{deployId}/files`, {
      summary: 'Upload one file of a deploy; the same path again replaces it',
      leastRole: 'operator',
      ...ofDeploy,
      audit: 'deploy.upload',
      requires: deps.requiresStorage,
      bodyKind: 'raw',
      accepts: t.object({ file: t.string({ format: 'binary' }), name: t.optional(t.string()) }),
      answers: { 201: deploy },
      handle: (call) => takeFile(deploys, deps.receive, call, call.params),
    }),
    route(`POST ${at}/{deployId}/manifest`, {
      summary: 'Tell which files belong to a deploy; those the site has already are taken over, the missing ones named',
      leastRole: 'operator',
      ...ofDeploy,
      audit: 'deploy.manifest',
      requires: deps.requiresStorage,
      body: t.object({
        files: t.array(t.object({ path: t.string(), sha256: t.string() }), { maxItems: MAX_LISTED }),
      }),
      answers: { 200: t.object({ missing: t.array(t.string()), deploy }) },
      handle: async (call) => {
        const { siteId, deployId } = call.params
        return jsonText(200, await deploys.adopt(siteId, deployId, call.body.files, call))
      },
    }),
    route(`POST ${at}/{deployId}/promote`, {
      summary: 'Make a deploy live',
      leastRole: 'operator',
      ...ofDeploy,
      audit: 'deploy.promote',
      bodyKind: 'none',
      answers: { 200: deploy },
      handle: async (call) => jsonText(200, await deploys.promote(call.params.siteId, call.params.deployId, call)),
    }),
    route(`POST ${at}/{deployId}/fail`, {
      summary: 'Give a deploy up',
      leastRole: 'operator',
      ...ofDeploy,
      audit: 'deploy.fail',
      body: t.object({ errorMessage: t.optional(t.string({ maxLength: MAX_ERROR })) }),
      answers: { 200: deploy },
      handle: async (call) => {
        const { siteId, deployId } = call.params
        return jsonText(200, await deploys.fail(siteId, deployId, call.body.errorMessage, call))
      },
    }),
  ]
}

async function takeFile(
  deploys: Deploys,
  receive: Deps['receive'],
  call: Call,
  { siteId = '', deployId = '' }: Readonly<Record<string, string>>,
): Promise<Reply> {
  await deploys.requireUploading(siteId, deployId)
  try {
    const text = await receive(call, ({ name, contentType, blob }) =>
      deploys.putFile(siteId, deployId, { name, contentType, blob }, call),
    )
    return jsonText(201, text)
  } catch (error) {
    // The client can retry its own errors and a busy server; a file that could not be stored fails the deploy.
    if (!(error instanceof AppError) || error.status === 507) await deploys.failUpload(deployId)
    throw error
  }
}
