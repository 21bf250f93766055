import { SYSTEM } from '../core/identity.ts'
import { randomHex } from '../core/secret.ts'
import { openDatabase } from '../db/database.ts'
import { createAudit } from '../features/admin/audit.ts'
import { setPassword } from '../features/admin/password.ts'
import { createAdminTokens } from '../features/admin/tokens.ts'
import { createPasswords } from '../features/auth/passwords.ts'
import type { Context } from './command.ts'
import { withDatabaseUrl } from './database.ts'
import { readToken, writeToken } from './token-file.ts'

export async function resetPassword(context: Context): Promise<number> {
  const { config } = context.config()
  if (config.admin.password !== '') throw new Error('admin.password is configured: change it there')
  const { argon2_memory, argon2_time, argon2_threads } = config.auth
  const passwords = createPasswords({
    memory: argon2_memory,
    time: argon2_time,
    threads: argon2_threads,
    concurrency: 1,
    queue: 1,
  })
  const password = randomHex(16)
  await withDatabaseUrl(config, async (url) => {
    const { pool } = await openDatabase({
      url,
      config: { ...config.database, max_conns: 2, min_conns: 0 },
      api: config.api,
      observe: () => {},
      progress: () => {},
    })
    try {
      await setPassword({ db: pool, passwords }, password)
      await createAudit(pool)({ who: SYSTEM, action: 'admin.reset_password' })
      // The running server's token died with the old password; its file gets one that lives.
      if (readToken(config.data_dir) !== undefined) {
        const token = await createAdminTokens({ db: pool, passwords, config: config.admin }).issue()
        if (token !== undefined) writeToken(config.data_dir, token)
      }
    } finally {
      await pool.close()
      await passwords.close()
    }
  })
  context.print(context.json ? JSON.stringify({ password }) : `new admin password: ${password}`)
  return 0
}
