import { holderOf } from '../db/setup/embedded/lock.ts'
import type { Context } from './command/command.ts'
import { serverUrl } from './command/server-api.ts'

export async function status(context: Context): Promise<number> {
  const { config } = context.config()
  const url = serverUrl(context, config)
  const pid = holderOf(config.data_dir)?.pid ?? null
  // A server that answers at the configured address has other data then.
  const isDown = pid === null && context.url === undefined && config.database.url === ''
  const health = isDown ? 'down' : await healthAt(url)
  context.print(
    context.json
      ? JSON.stringify({ pid, url, health })
      : [`pid     ${pid ?? '-'}`, `url     ${url}`, `health  ${health}`].join('\n'),
  )
  return health === 'ok' ? 0 : 1
}

async function healthAt(url: string): Promise<string> {
  try {
    const response = await fetch(`${url}/health`, { signal: AbortSignal.timeout(5_000) })
    const { status: health } = (await response.json()) as { status?: unknown }
    return typeof health === 'string' ? health : 'unknown'
  } catch {
    return 'down'
  }
}
