import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router'
import { forgetAhead, readAhead } from '../api/first-rows.ts'
import { ErrorLine } from '../parts/ui.tsx'
import type { Search } from './navigate.tsx'
import { NotFound, Shell } from './shell.tsx'

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound })

const validateSearch = (search: Record<string, unknown>): Search =>
  Object.fromEntries(
    Object.entries(search).flatMap(([name, value]) =>
      value === undefined || value === null || value === '' ? [] : [[name, String(value)]],
    ),
  )

type Load = Parameters<typeof lazyRouteComponent>[0]

const page = (path: string, load: Load) =>
  createRoute({ getParentRoute: () => root, path, validateSearch, component: lazyRouteComponent(load, 'default') })

const routes = [
  page('/', () => import('../pages/overview/page.tsx')),
  page('/tables', () => import('../pages/tables/page.tsx')),
  createRoute({
    getParentRoute: () => root,
    path: '/tables/$name',
    validateSearch,
    component: lazyRouteComponent(() => import('../pages/table/page.tsx'), 'default'),
    beforeLoad: ({ params, search: { filter = '', sort = '', tab = 'rows' }, preload }) => {
      if (tab === 'rows') readAhead(params.name, filter, sort, preload)
    },
    onLeave: forgetAhead,
  }),
  page('/sql', () => import('../pages/sql/page.tsx')),
  page('/schema', () => import('../pages/schema/page.tsx')),
  page('/policies', () => import('../pages/policies/page.tsx')),
  page('/users', () => import('../pages/users/page.tsx')),
  page('/users/$id', () => import('../pages/users/user.tsx')),
  page('/storage', () => import('../pages/storage/page.tsx')),
  page('/storage/$bucket', () => import('../pages/storage/bucket.tsx')),
  page('/realtime', () => import('../pages/realtime/page.tsx')),
  page('/webhooks', () => import('../pages/webhooks/page.tsx')),
  page('/jobs', () => import('../pages/jobs/page.tsx')),
  page('/push', () => import('../pages/push/page.tsx')),
  page('/sites', () => import('../pages/sites/page.tsx')),
  page('/email', () => import('../pages/email/page.tsx')),
  page('/keys', () => import('../pages/keys/page.tsx')),
  page('/logs', () => import('../pages/logs/page.tsx')),
  page('/audit', () => import('../pages/audit/page.tsx')),
  page('/usage', () => import('../pages/usage/page.tsx')),
  page('/api', () => import('../pages/api/page.tsx')),
  page('/settings', () => import('../pages/settings/page.tsx')),
]

/** No prototype, so that any name may stand in an address. */
const parseSearch = (text: string): Record<string, string> =>
  Object.assign(Object.create(null), Object.fromEntries(new URLSearchParams(text)))

function stringifySearch(search: Record<string, unknown>): string {
  const entries = Object.entries(search).flatMap(([name, value]) =>
    value === undefined || value === null || value === '' ? [] : [[name, String(value)]],
  )
  const query = new URLSearchParams(entries).toString()
  return query && `?${query}`
}

export const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: '/admin',
  parseSearch,
  stringifySearch,
  defaultPreload: 'intent',
  defaultPendingMinMs: 0,
  defaultErrorComponent: ({ error }) => (
    <div className="page">
      <h1>This page failed</h1>
      <ErrorLine error={error} />
    </div>
  ),
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
