import { jsonText, type Reply, type Route, route } from '../../http/route.ts'

export type HealthDeps = {
  databaseState: () => 'ok' | 'unreachable'
  /** True between the stop signal and the end of the process. */
  draining: () => boolean
}

const OK: Reply = jsonText(200, '{"status":"ok","database":"ok"}')
const DEGRADED: Reply = jsonText(503, '{"status":"degraded","database":"unreachable"}')
const DRAINING: Reply = jsonText(503, '{"status":"draining"}')

/** Load balancers ask this all the time: no query, no allocation, the state is watched elsewhere. */
export function createHealth({ databaseState, draining }: HealthDeps): { routes: Route[] } {
  return {
    routes: [
      route('GET /health', {
        auth: 'none',
        handle: () => {
          if (draining()) return DRAINING
          return databaseState() === 'ok' ? OK : DEGRADED
        },
      }),
    ],
  }
}
