import type { Config } from '../config/config.ts'
import type { Peers } from '../core/peers.ts'
import { version } from '../core/version.ts'
import { createStats } from '../features/admin/stats.ts'
import { createOpenApi } from '../features/openapi/routes.ts'
import type { Feature } from '../http/feature.ts'
import type { Platform } from './platform.ts'

/** Features that describe the other features: statistics and the OpenAPI document. */
export function createIntrospectionFeatures(
  config: Config,
  { db, schema, publicUrl }: Platform,
  askAllWorkers: Peers,
  others: readonly Feature[],
) {
  const stats = createStats({
    version,
    poolStats: () => db.stats(),
    extraStats: () => Object.assign({}, ...others.map((feature) => feature.stats?.())),
    askAllWorkers,
  })
  const openApi = createOpenApi({
    schema,
    routes: [...others, stats].flatMap(({ routes = [] }) => routes),
    anonymousSeesSchema: config.api.anonymous !== 'none',
    appName: config.server.app_name,
    version,
    publicBaseUrl: () => publicUrl.get(),
  })
  return { features: [stats, openApi] }
}
