import { ApiError, createClient, NetworkError } from '../../../client/src/data.ts'
import { type Config, publicBaseUrl } from '../../config/config.ts'
import { holderOf } from '../../db/setup/embedded/lock.ts'
import type { Context } from './command.ts'
import { readToken } from './token-file.ts'

const urls = new WeakMap<Context, string>()

/**
 * The URL of the server: given by --url, announced by the running server, or configured. A command stays with the one it began
 * with: when that ends, another server at the configured address must not get its token.
 */
export function serverUrl(context: Context, config: Config): string {
  const url = urls.get(context) ?? context.url ?? (holderOf(config.data_dir)?.url || publicBaseUrl(config))
  urls.set(context, url)
  return url
}

type Sent = { method?: 'GET' | 'POST' | 'DELETE'; type?: string; body?: unknown; headers?: Record<string, string> }

/** A command lasts as long as it takes: an upload, an index. */
const A_DAY_MS = 86_400_000

/** Calls the running server as admin; throws the server's own error message. */
export async function fetchAdmin(
  context: Context,
  path: string,
  { method = 'GET', headers = {}, ...sent }: Sent = {},
): Promise<Response> {
  const { config } = context.config()
  const url = serverUrl(context, config)
  const key = context.adminToken ?? readToken(config.data_dir)
  if (key === undefined) {
    throw new Error('no admin token: give --admin-token or SVC_ADMIN_TOKEN, or start the server with this data_dir')
  }
  const { core } = createClient(url, { key, retry: 0, timeout: A_DAY_MS })
  try {
    return await core.send<Response>(method, path, { ...sent, as: 'response' }, { headers })
  } catch (error) {
    if (error instanceof NetworkError) throw new Error(`no server answers at ${url}`, { cause: error })
    if (error instanceof ApiError && error.status === 304) {
      return new Response(null, { status: 304, headers: { etag: headers['if-none-match'] ?? '' } })
    }
    if (error instanceof ApiError) throw new Error(sentenceOf(error) ?? `the server at ${url} answered ${error.status}`)
    throw error
  }
}

/** As `fetchAdmin`, by POST if there is a body; resolves to the response text. */
export async function callAdmin(context: Context, path: string, body?: unknown): Promise<string> {
  return (await fetchAdmin(context, path, body === undefined ? {} : { method: 'POST', body })).text()
}

/** The error message, with the first row that an import reports; undefined for what is no answer of ours. */
function sentenceOf({ error, message, data }: ApiError): string | undefined {
  if (error === '') return undefined
  const [row] = (data?.['rows'] ?? []) as { line: number; message: string }[]
  return row ? `${message}: line ${row.line}: ${row.message}` : message
}
