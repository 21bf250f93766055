import type { Config } from '../config/config.ts'
import { impersonationOf, meteredAppOf, orgIdOf } from '../core/identity.ts'
import type { Peers } from '../core/peers.ts'
import { createHealth } from '../features/health/routes.ts'
import { createMetricsFeature } from '../features/metrics/routes.ts'
import { createUsage } from '../features/usage/routes.ts'
import type { RequestInfo } from '../http/server.ts'
import type { IdentityGroup } from './identity.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Platform } from './platform.ts'

/** Features for operators: health, metrics, usage. */
export function createOps(
  config: Config,
  { db, metrics, observe, usage: meter }: Platform,
  { admin, passwords, revocations }: IdentityGroup,
  lifecycle: Lifecycle,
  askAllWorkers: Peers,
) {
  const health = createHealth({ databaseState: () => db.state(), draining: () => lifecycle.isDraining })
  const monitoring = createMetricsFeature({
    metrics,
    samplesOfAll: askAllWorkers('metrics', () => metrics.samples()),
    config: config.metrics,
    resolveAdmin: admin.tokens.resolve,
    poolStats: () => db.stats(),
    hashQueue: () => passwords.queued(),
  })
  const isMetered = config.usage.enabled
  const usage = createUsage({ db, meter, enabled: isMetered, clock: revocations.clock, observe })
  const isLogged = config.log.level === 'info' || config.log.level === 'debug'
  return {
    features: [health, monitoring, usage],
    onRequest: (done: RequestInfo): void => {
      monitoring.requestDone(done.method, done.route, done.status, done.ms)
      if (isMetered) {
        const org = impersonationOf(done.who) === undefined ? orgIdOf(done.who) : undefined
        meter.request(meteredAppOf(done.who), done.method, done.route, done.status, done.bytes, org)
      }
      if (isLogged) observe(accessLine(done))
    },
  }
}

/** One line per request; never bodies or bearers. */
const accessLine = ({ method, route, path, status, ms, ip, requestId, userId }: RequestInfo) => ({
  message: 'request' as const,
  attrs: { method, route, path: path(), status, ms: Math.round(ms * 100) / 100, ip, requestId, userId },
})
