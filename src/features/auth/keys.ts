import type { AuditSource } from '../../core/audit-entry.ts'
import { SYSTEM } from '../../core/identity.ts'
import { deriveKey, randomHex } from '../../core/secret.ts'
import type { SecretBox } from '../../core/secret-box.ts'
import { auditStatement } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { accessHeader, type Keys } from './jwt.ts'
import { dropSigningKeys, rotationEntry, type StoredKey, signingKeyOf } from './signing-keys.ts'

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

type Stored = { salt: string; signing: readonly StoredKey[] }

/** A new salt makes new secrets, which ends every token that was signed with them. */
export function keysOf(root: string, { salt, signing }: Stored, box: SecretBox, lifetimeMs: number): Keys {
  const published = signing.flatMap((stored) => signingKeyOf(stored, box) ?? [])
  return {
    access: deriveKey(root, salt, 'access token'),
    mfa: deriveKey(root, salt, 'mfa token'),
    hs256: signing
      .filter(({ algorithm }) => algorithm === 'HS256')
      .map(({ active_from, retired_at }) => ({ activeFrom: active_from, retiredAt: retired_at })),
    published: new Map(published.map((key) => [accessHeader(key), key])),
    lifetimeMs,
  }
}

/** Made again only when what is stored changes. */
export function currentKeys(stored: () => Stored, make: (stored: Stored) => Keys): () => Keys {
  let made: { from: string; of: Stored; keys: Keys } | undefined
  return () => {
    const current = stored()
    if (made?.of === current) return made.keys
    const from = JSON.stringify([current.salt, current.signing])
    made = { from, of: current, keys: made?.from === from ? made.keys : make(current) }
    return made.keys
  }
}

/** There may be millions of sessions to end. */
const ROTATION_MS = 300_000

export async function rotateKeys(
  db: Db,
  signing: Parameters<typeof dropSigningKeys>[0],
  act: AuditSource,
): Promise<void> {
  await db.run(
    SYSTEM,
    [
      replaceSalt(),
      sql`delete from svc.sessions`,
      sql`delete from svc.pending_logins`,
      sql`delete from svc.oauth_states`,
      ...dropSigningKeys(signing),
      auditStatement(act.audit()),
    ],
    { kind: 'slow', timeoutMs: ROTATION_MS },
  )
}

/** For keys that others may have: sessions go on, with the next access token. */
export async function replaceAllKeys(
  db: Db,
  signing: Parameters<typeof dropSigningKeys>[0],
  act: AuditSource,
): Promise<void> {
  await db.run(SYSTEM, [
    replaceSalt(),
    ...dropSigningKeys(signing),
    auditStatement(rotationEntry(act, signing.algorithm, true)),
  ])
}

const keepFirst = (key: string, json: string): Sql =>
  sql`insert into svc.settings (key, value) values (${key}, ${json}::jsonb) on conflict (key) do nothing`
