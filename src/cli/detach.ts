import { spawn } from 'node:child_process'
import { openSync } from 'node:fs'
import { join } from 'node:path'
import { makeDataDir } from '../db/setup/embedded/data-dir.ts'
import type { Context } from './command/command.ts'
import type { StartMessage } from './start.ts'

/** Starts the same command as a detached process and waits until it serves or reports a failure. */
export async function detach(context: Context): Promise<number> {
  const { config } = context.config()
  makeDataDir(config.data_dir)
  const logFile = join(config.data_dir, 'svc.log')
  const log = openSync(logFile, 'a', 0o600)
  const args = context.argv.filter((arg) => arg !== '--detach')
  const child = spawn(process.execPath, [...process.execArgv, process.argv[1] ?? '', ...args], {
    detached: true,
    stdio: ['ignore', log, log, 'ipc'],
  })
  const started = await new Promise<StartMessage>((resolve) => {
    child.once('message', (message) => resolve(message as StartMessage))
    child.once('error', (error) => resolve({ failed: error.message }))
    child.once('exit', () => resolve({ failed: `the server ended at once (see ${logFile})` }))
  })
  if ('failed' in started) throw new Error(started.failed)
  child.unref()
  if (child.connected) child.disconnect()
  context.print(started.ready)
  return 0
}
