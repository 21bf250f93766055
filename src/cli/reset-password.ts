import { SYSTEM } from '../core/identity.ts'
import { randomHex } from '../core/secret.ts'
import { createAudit } from '../features/admin/audit.ts'
import { setPassword } from '../features/admin/password.ts'
import { issueMachineToken } from '../features/admin/tokens.ts'
import { createPasswordsForOnce } from '../identity/hashing-once.ts'
import type { Context } from './command/command.ts'
import { withDb } from './command/database.ts'
import { readToken, writeToken } from './command/token-file.ts'

export async function resetPassword(context: Context): Promise<number> {
  const { config } = context.config()
  if (config.admin.password !== '') throw new Error('admin.password is configured: change it there')
  const passwords = createPasswordsForOnce(config.auth)
  const password = randomHex(16)
  await withDb(config, async (db) => {
    await setPassword({ db, passwords }, password)
    await createAudit(db)({ who: SYSTEM, action: 'admin.reset_password', target: '', ip: '' })
    // The reset revoked the running server's token, so its file gets a new one.
    if (readToken(config.data_dir) !== undefined) {
      const token = await issueMachineToken({ db, config: config.admin })
      if (token !== undefined) writeToken(config.data_dir, token)
    }
  })
  context.print(context.json ? JSON.stringify({ password }) : `new admin password: ${password}`)
  return 0
}
