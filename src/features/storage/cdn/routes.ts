import { AppError, badRequest } from '../../../core/errors.ts'
import * as t from '../../../core/json-type.ts'
import { auditedEffect } from '../../../db/audit.ts'
import type { Db } from '../../../db/db.ts'
import { type Allowance, limitHeaders, tooMany } from '../../../http/rate-limit.ts'
import { type Call, type Reply, type Route, route } from '../../../http/route.ts'
import type { Provider } from './provider.ts'

const MAX_URLS = 1_000

const answer = t.object({
  operation: t.oneOf(['purge_urls', 'purge_all']),
  submitted: t.integer(),
  provider: t.string(),
})

/** A purge on demand goes to the provider at once, so that the operator hears of a failure. */
export function purgeRoute(deps: {
  db: Db
  provider: Provider | undefined
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
    // What the provider dropped cannot be taken back.
    await auditedEffect(db, call.audit({ target: operation, newValues: body }), async () => {
      try {
        await (urls === 'all' ? provider?.purgeAll() : provider?.purge(urls))
      } catch (cause) {
        throw new AppError('bad_gateway', 'cdn purge failed', { cause, ...(headers && { headers }) })
      }
    })
    return { status: 202, body, ...(headers && { headers }) }
  }

  return route('POST /api/admin/storage/cdn/purge', {
    summary: 'Drop addresses, or everything, from the caches in front of storage',
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

function urlsOf(body: unknown): readonly string[] | 'all' {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw badRequest('invalid JSON body')
  const { urls, purge_all: all, ...unknown } = body as Readonly<Record<string, unknown>>
  const [stranger] = Object.keys(unknown)
  if (stranger !== undefined) throw badRequest(`unknown field: ${stranger}`)
  if (all !== undefined && all !== null && typeof all !== 'boolean') throw badRequest('purge_all must be a boolean')
  const listed = listOf(urls)
  if (listed.length > 0 === (all === true)) throw badRequest('choose exactly one mode: either urls or purge_all')
  return all === true ? 'all' : listed
}

function listOf(urls: unknown): readonly string[] {
  if (urls === undefined || urls === null) return []
  if (!Array.isArray(urls)) throw badRequest('urls must be an array of strings')
  if (urls.length > MAX_URLS) throw badRequest(`urls must have at most ${MAX_URLS} items`)
  if (!urls.every(isPublicUrl)) throw badRequest('urls must contain absolute public URLs')
  return urls
}

function isPublicUrl(text: unknown): text is string {
  if (typeof text !== 'string' || text.length > 4_096 || !URL.canParse(text)) return false
  const { protocol, username, password } = new URL(text)
  return /^https?:$/.test(protocol) && username === '' && password === ''
}
