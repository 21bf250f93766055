import * as t from '../../core/json-type.ts'
import { jsonText, type Reply, type Route, route } from '../../http/route.ts'

export type HealthDeps = {
  databaseState: () => 'ok' | 'unreachable'
  /** True between the stop signal and the end of the process. */
  draining: () => boolean
}

const OK: Reply = jsonText(200, '{"status":"ok","database":"ok"}')
const DEGRADED: Reply = jsonText(503, '{"status":"degraded","database":"unreachable"}')
const DRAINING: Reply = jsonText(503, '{"status":"draining"}')

const state = t.object({
  status: t.oneOf(['ok', 'degraded', 'draining']),
  database: t.optional(t.oneOf(['ok', 'unreachable'])),
})

/** Polled constantly by load balancers: runs no query and allocates nothing. */
export function createHealth({ databaseState, draining }: HealthDeps): { routes: Route[] } {
  return {
    routes: [
      route('GET /health', {
        summary: 'Whether this process serves requests',
        auth: 'none',
        answers: { 200: state, 503: state },
        handle: () => {
          if (draining()) return DRAINING
          return databaseState() === 'ok' ? OK : DEGRADED
        },
      }),
    ],
  }
}
