import { badRequest } from '../../../core/errors.ts'
import type { CdnProvider } from './provider.ts'

const MAX_URLS = 1_000

/** The URLs to purge, or all: 400 unless exactly one of `urls` and `purge_all` is given. */
export function urlsOf(body: unknown): readonly string[] | 'all' {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw badRequest('invalid JSON body', 'invalid_body')
  const { urls, purge_all: all, ...unknown } = body as Readonly<Record<string, unknown>>
  const [stranger] = Object.keys(unknown)
  if (stranger !== undefined) throw badRequest(`unknown field: ${stranger}`)
  if (all !== undefined && all !== null && typeof all !== 'boolean') throw badRequest('purge_all must be a boolean')
  const listed = listOf(urls)
  if (listed.length > 0 === (all === true)) throw badRequest('choose exactly one mode: either urls or purge_all')
  return all === true ? 'all' : listed
}

/** Does nothing without a provider, since there is no cache then. */
export async function submitPurge(urls: readonly string[] | 'all', provider: CdnProvider | undefined): Promise<void> {
  await (urls === 'all' ? provider?.purgeAll() : provider?.purge(urls))
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
