import { SYSTEM } from '../../core/identity.ts'
import { randomHex } from '../../core/secret.ts'
import type { SecretBox } from '../../core/secret-box.ts'
import type { Db } from '../../db/db.ts'
import type { SealedColumn } from '../../db/sealed.ts'
import { sql } from '../../db/sql.ts'

const KEY = 'auth.backup_code_key'

/** A row of the settings. */
export const backupCodeKey: SealedColumn = {
  name: 'keys of backup codes',
  table: sql`svc.settings`,
  id: sql`key`,
  idType: sql`text`,
  sealed: sql`(case when key = ${KEY} then value #>> '{}' end)`,
  store: (text) => sql`value = to_jsonb(${text}::text), updated_at = now()`,
  context: (key) => key,
}

/**
 * Backup codes are stored as HMACs, which cannot be recomputed under another key. So their key is random and stored
 * sealed, to survive a change of auth.encryption_key. Created on first use.
 */
export function createBackupCodeKey({ db, box }: { db: Db; box: SecretBox }): () => Promise<Buffer> {
  let key: Buffer | undefined
  return async () => {
    if (key) return key
    const fresh = box.seal(randomHex(32), backupCodeKey.context(KEY))
    const [row] = await db.rows<{ sealed: string }>(SYSTEM, [
      sql`insert into svc.settings (key, value) values (${KEY}, to_jsonb(${fresh}::text)) on conflict (key) do nothing`,
      sql`select value #>> '{}' as sealed from svc.settings where key = ${KEY}`,
    ])
    if (!row) throw new Error('the key of backup codes could not be stored')
    key = Buffer.from(box.open(row.sealed, backupCodeKey.context(KEY)), 'hex')
    return key
  }
}
