import { type Config, publicBaseUrl } from '../../config/config.ts'
import { holderOf } from '../../db/setup/embedded/lock.ts'
import type { Context } from './command.ts'
import { readToken } from './token-file.ts'

/** The URL of the server: given by --url, announced by the running server, or configured. */
export const serverUrl = (context: Context, config: Config): string =>
  context.url ?? (holderOf(config.data_dir)?.url || publicBaseUrl(config))

/** Calls the running server as admin; throws the server's own error message. */
export async function fetchAdmin(context: Context, path: string, init: RequestInit = {}): Promise<Response> {
  const { config } = context.config()
  const url = serverUrl(context, config)
  const token = context.adminToken ?? readToken(config.data_dir)
  if (token === undefined) {
    throw new Error('no admin token: give --admin-token or SVC_ADMIN_TOKEN, or start the server with this data_dir')
  }
  const headers = { ...init.headers, authorization: `Bearer ${token}` }
  const response = await fetch(url + path, { ...init, headers }).catch(() => {
    throw new Error(`no server answers at ${url}`)
  })
  if (response.ok) return response
  throw new Error(messageOf(await response.text()) ?? `the server at ${url} answered ${response.status}`)
}

/** As `fetchAdmin`, by POST if there is a body; resolves to the response text. */
export async function callAdmin(context: Context, path: string, body?: unknown): Promise<string> {
  const headers = { 'content-type': 'application/json' }
  const post = body !== undefined && { method: 'POST', body: JSON.stringify(body) }
  return (await fetchAdmin(context, path, { headers, ...post })).text()
}

type ErrorBody = {
  message?: unknown
  conflicts?: readonly { table: string; key: unknown; message: string }[]
  transactions?: readonly string[]
  data?: { rows?: readonly { line: number; message: string }[] }
}

/** The error message, with the first row that an import reports. */
function messageOf(text: string): string | undefined {
  try {
    const { message, data, conflicts, transactions } = JSON.parse(text) as ErrorBody
    if (typeof message !== 'string') return undefined
    const [row] = data?.rows ?? []
    const more =
      conflicts?.map(({ table, key, message: why }) => `${table} ${JSON.stringify(key)}: ${why}`) ?? transactions
    if (more) return [message, ...more].join('\n  ')
    return row ? `${message}: line ${row.line}: ${row.message}` : message
  } catch {
    return undefined
  }
}
