import { notFound } from '../../core/errors.ts'
import * as t from '../../core/json-type.ts'
import { json, type Reply, type Route, requireEnabled, route } from '../../http/route.ts'
import { BuiltFiles } from './built-files.ts'
import { favicon } from './favicon.ts'

export type DashboardDeps = {
  /** `admin.dashboard` */
  enabled: boolean
  /** The folder that a build fills. */
  folder: string
  name: string
  version: string
  publicBaseUrl: () => string
}

export type Dashboard = {
  routes: Route[]
  /** Whether it is switched on and built. */
  isThere(): Promise<boolean>
}

/** The pages under /admin/, and what a browser looks for beside them. A site's host never gets here. */
export function createDashboard({ enabled, folder, name, version, publicBaseUrl }: DashboardDeps): Dashboard {
  const files = new BuiltFiles(folder)
  const page = {
    auth: 'none',
    requires: requireEnabled(enabled, () => notFound('the dashboard is switched off', 'feature_disabled')),
  } as const
  const routes = [
    route('GET /', {
      summary: 'For a browser the dashboard, else what this server is',
      auth: 'none',
      answers: { 200: t.object({ name: t.string(), version: t.string(), docs: t.string() }), 302: null },
      handle: ({ headers }): Reply => {
        const vary = { Vary: 'Accept' }
        if (enabled && prefersHtml(headers['accept'])) return redirectTo('/admin/', vary)
        return { ...json(200, { name, version, docs: `${publicBaseUrl()}/api/docs` }), headers: vary }
      },
    }),
    route('GET /favicon.ico', {
      summary: 'The icon of the pages',
      auth: 'none',
      answers: { 200: { content: 'image/png' } },
      handle: () => ({
        status: 200,
        headers: { 'Content-Type': 'image/png', 'Cache-Control': 'public, max-age=86400' },
        content: favicon,
      }),
    }),
    route('GET /admin', {
      summary: 'The dashboard',
      ...page,
      answers: { 200: { content: 'text/html' }, 302: null },
      // The page's relative addresses need the slash, which the router ignores.
      handle: (call) => (call.target.split('?')[0] === '/admin' ? redirectTo('/admin/') : files.shell(call)),
    }),
    route('GET /admin/assets/{file}', {
      summary: 'A script, style or picture of the dashboard',
      ...page,
      answers: { 200: { content: '*/*' } },
      handle: (call) => files.asset(call, call.params.file),
    }),
    route('GET /admin/{path...}', {
      summary: 'A page of the dashboard, which reads the path itself',
      ...page,
      answers: { 200: { content: 'text/html' } },
      handle: (call) => files.shell(call),
    }),
  ]
  return { routes, isThere: async () => enabled && (await files.isThere()) }
}

const redirectTo = (path: string, headers: Record<string, string> = {}): Reply => ({
  status: 302,
  headers: { ...headers, Location: path },
})

/** Browsers name HTML when they open an address; programs send anything, JSON or nothing. */
const prefersHtml = (accept = ''): boolean => /(^|,)\s*text\/html\s*(;(?!\s*q=0(\.0*)?\s*(,|$))|,|$)/i.test(accept)
