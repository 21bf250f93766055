import type { AuditSource } from '../../core/audit-entry.ts'
import { SYSTEM } from '../../core/identity.ts'
import { deriveKey, randomHex } from '../../core/secret.ts'
import { auditStatement } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import { type Sql, sql } from '../../db/sql.ts'
import type { Keys } from './jwt.ts'

const SALT = 'auth.jwt_salt'
const ROOT = 'auth.root_secret'

/** A file outside the database that all processes share. */
type SecretFile = { read(): string | undefined; keep(secret: string): string }

/**
 * The secret that all others are derived from: as configured, or generated once and kept in a file beside the database
 * or, where the processes share nothing else, in the database.
 */
export async function loadRootSecret(db: Db, configured: string, file: SecretFile | undefined): Promise<string> {
  if (configured !== '') return configured
  return file ? keptInFile(db, file) : keptInDatabase(db)
}

/** A secret in the database is moved to the file, which is written before the row is deleted. */
async function keptInFile(db: Db, file: SecretFile): Promise<string> {
  const [found] = await db.rows<{ value: string }>(SYSTEM, sql`select value from svc.settings where key = ${ROOT}`)
  const secret = file.read() ?? file.keep(found?.value ?? randomHex(32))
  if (found) await db.run(SYSTEM, sql`delete from svc.settings where key = ${ROOT}`)
  return secret
}

async function keptInDatabase(db: Db): Promise<string> {
  const [found] = await db.rows<{ value: string }>(SYSTEM, [
    keepFirst(ROOT, JSON.stringify(randomHex(32))),
    sql`select value from svc.settings where key = ${ROOT}`,
  ])
  if (!found) throw new Error('the root secret could not be stored')
  return found.value
}

/** The first process to start creates the salt; rotation replaces it. */
export const ensureSalt = (): Sql => keepFirst(SALT, JSON.stringify(randomHex(32)))

const replaceSalt = (): Sql =>
  sql`update svc.settings set value = ${JSON.stringify(randomHex(32))}::jsonb, updated_at = now() where key = ${SALT}`

/** An SQL expression for the salt. */
export const currentSalt: Sql = sql`(select value #>> '{}' from svc.settings where key = ${SALT})`

/** A new salt makes new keys, which invalidates every earlier token. */
export const signingKeys = (root: string, salt: string): Keys => ({
  access: deriveKey(root, salt, 'access token'),
  mfa: deriveKey(root, salt, 'mfa token'),
})

/** Derived again only when the salt changes. */
export function keysOfSalt(rootSecret: string, salt: () => string): () => Keys {
  let made = { salt: '', keys: signingKeys(rootSecret, '') }
  return () => {
    const current = salt()
    if (made.salt !== current) made = { salt: current, keys: signingKeys(rootSecret, current) }
    return made.keys
  }
}

/** There may be millions of sessions to end. */
const ROTATION_MS = 300_000

export async function rotateKeys(db: Db, act: AuditSource): Promise<void> {
  await db.run(
    SYSTEM,
    [
      replaceSalt(),
      sql`delete from svc.sessions`,
      sql`delete from svc.pending_logins`,
      sql`delete from svc.oauth_states`,
      sql`select svc.revoke('all_users', '')`,
      auditStatement(act.audit()),
    ],
    { kind: 'slow', timeoutMs: ROTATION_MS },
  )
}

const keepFirst = (key: string, json: string): Sql =>
  sql`insert into svc.settings (key, value) values (${key}, ${json}::jsonb) on conflict (key) do nothing`
