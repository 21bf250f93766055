import type { Config } from '../config/config.ts'
import { packageRoot } from '../core/package-root.ts'
import type { Peers } from '../core/peers.ts'
import { version } from '../core/version.ts'
import { createStats } from '../features/admin/stats.ts'
import { createDashboard } from '../features/dashboard/routes.ts'
import { createOpenApi } from '../features/openapi/routes.ts'
import type { Feature } from '../http/feature.ts'
import type { Platform } from './platform.ts'

/** Features that describe the other features: statistics, the dashboard and the OpenAPI document. */
export function createIntrospectionFeatures(
  config: Config,
  { db, schema, publicUrl }: Platform,
  askAllWorkers: Peers,
  others: readonly Feature[],
  dashboardFolder = `${packageRoot}dist/dashboard`,
) {
  const stats = createStats({
    version,
    poolStats: () => db.stats(),
    extraStats: () => Object.assign({}, ...others.map((feature) => feature.stats?.())),
    askAllWorkers,
  })
  const dashboard = createDashboard({
    enabled: config.admin.dashboard,
    folder: dashboardFolder,
    name: config.server.app_name,
    version,
    publicBaseUrl: () => publicUrl.get(),
  })
  const openApi = createOpenApi({
    schema,
    routes: [...others, stats, dashboard].flatMap(({ routes = [] }) => routes),
    anonymousSeesSchema: config.api.anonymous !== 'none',
    appName: config.server.app_name,
    version,
    publicBaseUrl: () => publicUrl.get(),
    hasDashboard: () => dashboard.isThere(),
  })
  return { features: [stats, dashboard, openApi] }
}
