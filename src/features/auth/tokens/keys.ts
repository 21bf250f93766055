import { SYSTEM } from '../../../core/identity.ts'
import { deriveKey, randomHex } from '../../../core/secret.ts'
import type { Db } from '../../../db/db.ts'
import { type Sql, sql } from '../../../db/sql.ts'
import type { Keys } from './jwt.ts'

const SALT = 'auth.jwt_salt'
const ROOT = 'auth.root_secret'

/**
 * The secret that all others are derived from: as configured, or generated once and kept in the database, where
 * every process finds the same one.
 */
export async function loadRootSecret(db: Db, configured: string): Promise<string> {
  if (configured !== '') return configured
  const [found] = await db.rows<{ value: string }>(SYSTEM, [
    keepFirst(ROOT, JSON.stringify(randomHex(32))),
    sql`select value from svc.settings where key = ${ROOT}`,
  ])
  if (!found) throw new Error('the root secret could not be stored')
  return found.value
}

/** The first process to start makes the salt; rotation replaces it. */
export const ensureSalt = (): Sql => keepFirst(SALT, JSON.stringify(randomHex(32)))

export const replaceSalt = (): Sql =>
  sql`update svc.settings set value = ${JSON.stringify(randomHex(32))}::jsonb, updated_at = now() where key = ${SALT}`

/** As an expression: the salt's text. */
export const currentSalt: Sql = sql`(select value #>> '{}' from svc.settings where key = ${SALT})`

/** A new salt makes new keys, so that every token signed before is dead. */
export const signingKeys = (root: string, salt: string): Keys => ({
  access: deriveKey(root, salt, 'access token'),
  mfa: deriveKey(root, salt, 'mfa token'),
})

const keepFirst = (key: string, json: string): Sql =>
  sql`insert into svc.settings (key, value) values (${key}, ${json}::jsonb) on conflict (key) do nothing`
