import type { Config } from '../config/config.ts'
import { settingsOf } from '../config/settings.ts'
import { packageRoot } from '../core/package-root.ts'
import type { Peers } from '../core/peers.ts'
import { version } from '../core/version.ts'
import { configRoute } from '../features/admin/config-route.ts'
import { createStats } from '../features/admin/stats.ts'
import { createDashboard } from '../features/dashboard/routes.ts'
import { createOpenApi } from '../features/openapi/routes.ts'
import type { Feature } from '../http/feature.ts'
import { mostConnections, type Platform } from './platform.ts'

type Given = {
  /** Ways to sign in that are switched on, by the last word of their key. */
  authSettings: () => Readonly<Record<string, boolean>>
  dashboardFolder: string | undefined
}

/** Features that describe the other features: statistics, the dashboard and the OpenAPI document. */
export function createIntrospectionFeatures(
  config: Config,
  { db, schema, publicUrl }: Platform,
  askAllWorkers: Peers,
  others: readonly Feature[],
  { authSettings, dashboardFolder }: Given,
) {
  const stats = createStats({
    mostConnections: mostConnections(config, 1),
    version,
    poolStats: () => db.stats(),
    extraStats: () => Object.assign({}, ...others.map((feature) => feature.stats?.())),
    askAllWorkers,
  })
  const switches = () =>
    Object.fromEntries(Object.entries(authSettings()).map(([name, isOn]) => [`auth.${name}`, isOn]))
  const configuration = { routes: [configRoute({ settings: settingsOf(config), switches })] }
  const dashboard = createDashboard({
    enabled: config.admin.dashboard,
    folder: dashboardFolder ?? `${packageRoot}dist/dashboard`,
    name: config.server.app_name,
    version,
    publicBaseUrl: () => publicUrl.get(),
  })
  const openApi = createOpenApi({
    schema,
    routes: [...others, stats, configuration, dashboard].flatMap(({ routes = [] }) => routes),
    anonymousSeesSchema: config.api.anonymous !== 'none',
    appName: config.server.app_name,
    version,
    publicBaseUrl: () => publicUrl.get(),
    hasDashboard: () => dashboard.isThere(),
  })
  return { features: [stats, configuration, dashboard, openApi] }
}
