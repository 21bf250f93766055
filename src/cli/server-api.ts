import { type Config, publicBaseUrl } from '../config/config.ts'
import { holderOf } from '../db/setup/embedded/lock.ts'
import type { Context } from './command.ts'
import { readToken } from './token-file.ts'

/** Where the server answers: as told, as the running server announced it, or as it is configured. */
export const serverUrl = (context: Context, config: Config): string =>
  context.url ?? (holderOf(config.data_dir)?.url || publicBaseUrl(config))

/** Calls the running server as its admin, with a body by POST; a failure is the server's own sentence. */
export async function callAdmin(context: Context, path: string, body?: unknown): Promise<string> {
  const { config } = context.config()
  const url = serverUrl(context, config)
  const token = context.adminToken ?? readToken(config.data_dir)
  if (token === undefined) {
    throw new Error('no admin token: give --admin-token or SVC_ADMIN_TOKEN, or start the server with this data_dir')
  }
  const response = await fetch(url + path, {
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
  }).catch(() => {
    throw new Error(`no server answers at ${url}`)
  })
  const text = await response.text()
  if (!response.ok) throw new Error(messageOf(text) ?? `the server at ${url} answered ${response.status}`)
  return text
}

function messageOf(text: string): string | undefined {
  try {
    const { message } = JSON.parse(text) as { message?: unknown }
    return typeof message === 'string' ? message : undefined
  } catch {
    return undefined
  }
}
