import { cleanupsOf } from '../app/cleanups.ts'
import { isDrill, keepingStore } from '../app/drill.ts'
import { ChangeLog } from '../db/changes/log.ts'
import { createStore } from '../features/storage/storage.ts'
import { type Context, UsageError } from './command/command.ts'
import { withDb } from './command/database.ts'

/** Runs one cleanup on the configured database, with or without a running server. */
export async function cleanup(context: Context): Promise<number> {
  const [name] = context.args
  const { config } = context.config()
  return withDb(config, async (db) => {
    const log = new ChangeLog({
      db,
      observe: () => {},
      retentionSeconds: config.events.retention,
      history: config.history,
      key: '',
    })
    const store = isDrill(config) ? keepingStore(createStore(config.storage)) : createStore(config.storage)
    const cleanups = cleanupsOf(config, { db, store, trimLog: () => log.trim() })
    const names = Object.keys(cleanups)
    if (name === undefined) {
      context.print(context.json ? JSON.stringify({ items: names }) : names.join('\n'))
      return 0
    }
    const run = Object.hasOwn(cleanups, name) ? cleanups[name] : undefined
    if (!run) throw new UsageError(`unknown cleanup: ${name} (there are ${names.join(', ')})`)
    const removed = await run().finally(() => store.stop())
    context.print(context.json ? JSON.stringify({ removed }) : `removed ${removed}`)
    return 0
  })
}
