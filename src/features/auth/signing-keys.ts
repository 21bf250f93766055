import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import type { AuditEntry, AuditSource } from '../../core/audit-entry.ts'
import { SYSTEM } from '../../core/identity.ts'
import { randomHex } from '../../core/secret.ts'
import type { SecretBox } from '../../core/secret-box.ts'
import { auditStatement } from '../../db/audit.ts'
import type { Db, Tx } from '../../db/db.ts'
import type { SealedColumn } from '../../db/sealed.ts'
import { type Sql, sql } from '../../db/sql.ts'

export type SigningAlgorithm = 'ES256' | 'EdDSA' | 'HS256'

/** A row of svc.signing_keys; times are milliseconds. */
export type StoredKey = {
  kid: string
  algorithm: SigningAlgorithm
  private_key: string | null
  active_from: number
  retired_at: number | null
}

/** Every process knows a new key before the first token is signed with it. */
const ACTIVE_AFTER_SECONDS = 3

/** Private keys of tokens. */
export const signingSecrets: SealedColumn = {
  name: 'signing keys',
  table: sql`svc.signing_keys`,
  id: sql`kid`,
  idType: sql`text`,
  sealed: sql`private_key`,
  store: (text) => sql`private_key = ${text}`,
  context: (kid) => `signing key ${kid}`,
}

/** An SQL expression for all keys as a JSON array, the newest first. */
export const storedKeys: Sql = sql`(
  select coalesce(json_agg(json_build_object('kid', kid, 'algorithm', algorithm, 'private_key', private_key,
    'active_from', extract(epoch from active_from) * 1000,
    'retired_at', extract(epoch from retired_at) * 1000) order by active_from desc, kid), '[]')
  from svc.signing_keys)`

export type Rotation = {
  algorithm: SigningAlgorithm
  box: SecretBox
  /** Milliseconds that an access token lives. */
  lifetimeMs: number
}

/**
 * The first process to start makes a key; one of another algorithm than the configured takes over from the last. Keys that
 * another secret sealed are those of a process with that secret: they are left alone.
 */
export async function ensureSigningKey(
  db: Db,
  configured: SigningAlgorithm | 'auto',
  rotation: Omit<Rotation, 'algorithm'>,
): Promise<void> {
  await db.tx(SYSTEM, async (tx) => {
    const own = await lockedKeys(tx, rotation.box)
    const current = own.find(({ retired_at }) => retired_at === null)
    const algorithm = configured === 'auto' ? (current?.algorithm ?? 'ES256') : configured
    if (current?.algorithm === algorithm) return
    await replaceKeys(tx, own, { ...rotation, algorithm }, current ? ACTIVE_AFTER_SECONDS : 0)
  })
}

/** The new key signs; the old ones verify until the tokens they signed are over. */
export async function rotateSigningKey(db: Db, rotation: Rotation, act: AuditSource): Promise<void> {
  await db.tx(SYSTEM, async (tx) => {
    await replaceKeys(tx, await lockedKeys(tx, rotation.box), rotation, ACTIVE_AFTER_SECONDS)
    await tx.run(auditStatement(rotationEntry(act, rotation.algorithm, false)))
  })
}

export const rotationEntry = (act: AuditSource, algorithm: SigningAlgorithm, compromised: boolean): AuditEntry =>
  act.audit({ target: 'signing-key', newValues: { algorithm, compromised } })

/** Statements after which no token that was signed before is good. */
export const dropSigningKeys = ({ algorithm, box }: Pick<Rotation, 'algorithm' | 'box'>): Sql[] => [
  lockKeys,
  sql`delete from svc.signing_keys`,
  insertKey(algorithm, box, 0),
  sql`select svc.revoke('all_users', '')`,
]

/** An advisory lock id that nothing else uses. */
const LOCK = 7_160_424
const lockKeys = sql`select pg_advisory_xact_lock(${LOCK}::bigint)`

/** Those that this process can use. */
async function lockedKeys(tx: Tx, box: SecretBox): Promise<StoredKey[]> {
  await tx.run(lockKeys)
  const text = await tx.fly(sql`select ${storedKeys}::text`)
  return (JSON.parse(text ?? '[]') as StoredKey[]).filter((key) => isReadable(box, key))
}

async function replaceKeys(
  tx: Tx,
  own: readonly StoredKey[],
  { algorithm, box, lifetimeMs }: Rotation,
  afterSeconds: number,
): Promise<void> {
  await tx.run(sql`delete from svc.signing_keys
    where retired_at < now() - make_interval(secs => ${2 * (lifetimeMs / 1000)}::float8)`)
  await tx.run(sql`update svc.signing_keys set retired_at = now() + make_interval(secs => ${afterSeconds}::float8)
    where kid = any(${own.map(({ kid }) => kid)}::text[]) and (retired_at is null or retired_at > now())`)
  await tx.run(insertKey(algorithm, box, afterSeconds))
  await tx.run(sql`select pg_notify('svc_revocations', '')`)
}

function insertKey(algorithm: SigningAlgorithm, box: SecretBox, afterSeconds: number): Sql {
  const kid = randomHex(8)
  const privateKey = algorithm === 'HS256' ? null : box.seal(newKey(algorithm), signingSecrets.context(kid))
  return sql`insert into svc.signing_keys (kid, algorithm, private_key, active_from)
    values (${kid}, ${algorithm}, ${privateKey}, now() + make_interval(secs => ${afterSeconds}::float8))`
}

function newKey(algorithm: 'ES256' | 'EdDSA'): string {
  const pair =
    algorithm === 'ES256' ? generateKeyPairSync('ec', { namedCurve: 'P-256' }) : generateKeyPairSync('ed25519')
  return String(pair.privateKey.export({ format: 'pem', type: 'pkcs8' }))
}

/** Undefined for what no configured key opens: it was made with another secret, so it is not ours any more. */
function openKey(box: SecretBox, { kid, private_key }: StoredKey): KeyObject | undefined {
  try {
    return createPrivateKey(box.open(private_key ?? '', signingSecrets.context(kid)))
  } catch {
    return undefined
  }
}

const isReadable = (box: SecretBox, key: StoredKey): boolean => key.algorithm === 'HS256' || !!openKey(box, key)

export type SigningKey = {
  readonly kid: string
  readonly algorithm: 'ES256' | 'EdDSA'
  readonly publicKey: KeyObject
  /** Milliseconds. */
  readonly activeFrom: number
  readonly retiredAt: number | null
  sign(text: string): Buffer
}

export function signingKeyOf(stored: StoredKey, box: SecretBox): SigningKey | undefined {
  const { kid, algorithm } = stored
  if (algorithm === 'HS256') return undefined
  const privateKey = openKey(box, stored)
  return (
    privateKey && {
      kid,
      algorithm,
      publicKey: createPublicKey(privateKey),
      activeFrom: stored.active_from,
      retiredAt: stored.retired_at,
      sign: (text) =>
        algorithm === 'ES256'
          ? sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' })
          : sign(null, Buffer.from(text), privateKey),
    }
  )
}
