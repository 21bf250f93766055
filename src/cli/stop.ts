import { sleep } from '../core/clock.ts'
import { holderOf } from '../db/setup/embedded/lock.ts'
import type { Context } from './command/command.ts'

/** Added to the drain (workers take up to twice its time), for an embedded database to stop. */
const EXTRA_SECONDS = 30

export async function stop(context: Context): Promise<number> {
  const { config } = context.config()
  const holder = holderOf(config.data_dir)
  if (!holder) throw new Error(`no server is running on ${config.data_dir}`)
  process.kill(holder.pid, 'SIGTERM')
  const deadline = performance.now() + (2 * config.server.shutdown_timeout + EXTRA_SECONDS) * 1000
  while (holderOf(config.data_dir)?.pid === holder.pid) {
    if (performance.now() > deadline) throw new Error(`the server (pid ${holder.pid}) does not stop`)
    await sleep(25)
  }
  context.print(context.json ? JSON.stringify({ stopped: holder.pid }) : `stopped (pid ${holder.pid})`)
  return 0
}
