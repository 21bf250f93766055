import type { Config } from '../config/config.ts'
import { meteredAppOf } from '../core/identity.ts'
import type { Peers } from '../core/peers.ts'
import { version } from '../core/version.ts'
import { createAuditTrail } from '../features/audit/routes.ts'
import { createJobs } from '../features/jobs/routes.ts'
import { createPush } from '../features/push/routes.ts'
import { createRealtime } from '../features/realtime/routes.ts'
import { createWebhooks } from '../features/webhooks/routes.ts'
import { isLoopbackHost } from '../http/out/address-guard.ts'
import { createOutgoing } from '../http/out/outgoing.ts'
import { limitFor, tooMany } from '../http/rate-limit.ts'
import type { DataGroup } from './data.ts'
import { closedOutgoing } from './drill.ts'
import type { IdentityGroup } from './identity.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Platform } from './platform.ts'

/** Features that react to the change log, and background jobs. */
export function createEvents(
  config: Config,
  platform: Platform,
  identity: IdentityGroup,
  lifecycle: Lifecycle,
  { liveList, graphqlRequests }: Pick<DataGroup, 'liveList' | 'graphqlRequests'>,
  askAllWorkers: Peers,
) {
  const { db, schema, changeLog, queue, gateways, limiter, observe, metrics, usage } = platform
  const { identify, revocations, box, keyFor } = identity
  const realtime = createRealtime({
    db,
    schema,
    log: changeLog,
    config: config.realtime,
    channelKey: keyFor('channels'),
    retentionSeconds: config.events.retention,
    visitorsMayListen: !config.auth.enabled && config.api.anonymous !== 'none',
    identify,
    countRequest: async (who, ip) => {
      const limit = limitFor('api', config.rate_limit, who, ip)
      const allowance = limit && (await limiter.takeToken(limit.name, limit.subject, limit.rate))
      if (allowance?.allowed === false) throw tooMany(allowance)
    },
    onRevoked: (listener) => revocations.onRevoked(listener),
    clock: revocations.clock,
    observe,
    metrics,
    askAllWorkers,
    opened: (who) => usage.streamOpened(meteredAppOf(who)),
    livePool: platform.livePool,
    liveList,
    graphql: graphqlRequests,
    hasSchemaTrigger: platform.hasSchemaTrigger,
  })
  const isPrivateAllowed = config.webhooks.allow_private_networks
  const outgoing = lifecycle.own(
    createOutgoing({
      allowPrivateNetworks: isPrivateAllowed === 'auto' ? isLoopbackHost(config.server.host) : isPrivateAllowed,
    }),
  )
  const receivers = platform.isDrill ? closedOutgoing(outgoing) : outgoing
  const webhooks = createWebhooks({
    db,
    log: changeLog,
    queue,
    outgoing: receivers,
    box,
    config: config.webhooks,
    version,
    observe,
    metrics,
  })
  const jobs = createJobs({
    db,
    queue,
    observe,
    metrics,
    outgoing: receivers,
    version,
    config: platform.isDrill ? { ...config.jobs, scheduler_enabled: false } : config.jobs,
    onRun: () => usage.jobRan(),
  })
  const { retention_days: retentionDays, ...settings } = config.audit
  const trail = createAuditTrail({ db, schema, log: changeLog, settings, retentionDays, observe })
  const push = createPush({
    db,
    observe,
    outgoing: gateways,
    queueJobs: jobs.queueEach,
    wakeJobs: jobs.wake,
    isUnderWay: jobs.isUnderWay,
    retentionSeconds: config.jobs.retention,
    config: config.push,
  })
  return {
    jobs,
    liveStream: realtime.liveStream,

    features: [realtime, webhooks, trail, jobs, push],
  }
}
