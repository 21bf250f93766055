import { resealAll, secretBoxOf, unreadableWarning } from '../app/secrets.ts'
import { rootSecretFile } from '../db/setup/embedded/secret-file.ts'
import { loadRootSecret } from '../features/auth/keys.ts'
import type { Context } from './command/command.ts'
import { withDb } from './command/database.ts'

/** Reseals secrets as a start does, so that the operator can remove the old key afterwards. */
export async function reencrypt(context: Context): Promise<number> {
  const { config } = context.config()
  const file = config.database.url === '' ? rootSecretFile(config.data_dir) : undefined
  const all = await withDb(config, async (db) =>
    resealAll(db, secretBoxOf(config.auth, await loadRootSecret(db, config.auth.jwt_secret, file))),
  )
  const unreadable = all.filter((one) => one.unreadable > 0)
  if (context.json) context.print(JSON.stringify({ items: all }))
  else for (const { name, resealed } of all) context.print(`${name}: ${resealed} encrypted anew`)
  if (unreadable.length > 0) throw new Error(unreadable.map(unreadableWarning).join('; '))
  return 0
}
