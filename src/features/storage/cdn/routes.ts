import { AppError } from '../../../core/errors.ts'
import * as t from '../../../core/json-type.ts'
import { auditedEffect } from '../../../db/audit.ts'
import type { Db } from '../../../db/db.ts'
import { type Allowance, limitHeaders, tooMany } from '../../../http/rate-limit.ts'
import { type Call, type Reply, type Route, route } from '../../../http/route.ts'
import type { CdnProvider } from './provider.ts'
import { submitPurge, urlsOf } from './purge-request.ts'

const answer = t.object({
  operation: t.oneOf(['purge_urls', 'purge_all']),
  submitted: t.integer(),
  provider: t.string(),
})

/** Calls the provider directly instead of queueing, so that the operator sees a failure. */
export function purgeRoute(deps: {
  db: Db
  provider: CdnProvider | undefined
  /** Undefined: not limited. */
  countPurgeAll: (ip: string) => Promise<Allowance | undefined>
  requires: () => void
}): Route {
  const { db, provider, countPurgeAll, requires } = deps

  async function purge(call: Call): Promise<Reply> {
    const urls = urlsOf(call.body)
    const operation = urls === 'all' ? 'purge_all' : 'purge_urls'
    const allowance = urls === 'all' ? await countPurgeAll(call.ip) : undefined
    const headers = allowance && limitHeaders(allowance)
    if (allowance && !allowance.allowed) throw overLimit(allowance)
    const submitted = urls === 'all' ? 0 : urls.length
    const body = { operation, submitted, provider: provider?.name ?? 'noop' }
    // A purge cannot be rolled back, so its audit entry is written first.
    await auditedEffect(db, call.audit({ target: operation, newValues: body }), async () => {
      try {
        await submitPurge(urls, provider)
      } catch (cause) {
        throw new AppError('provider_failed', 'cdn purge failed', { cause, ...(headers && { headers }) })
      }
    })
    return { status: 202, body, ...(headers && { headers }) }
  }

  return route('POST /api/admin/storage/cdn/purge', {
    summary: 'Drop addresses, or everything, from the caches in front of storage',
    leastRole: 'operator',
    auth: 'admin',
    audit: 'cdn.purge',
    requires,
    accepts: t.object({ urls: t.optional(t.array(t.string())), purge_all: t.optional(t.boolean()) }),
    answers: { 202: answer },
    handle: purge,
  })
}

function overLimit(allowance: Allowance): AppError {
  const { message, headers } = tooMany(allowance, 'cdn purge_all rate limit exceeded')
  return new AppError('rate_limited', message, { headers: { ...limitHeaders(allowance), ...headers } })
}
