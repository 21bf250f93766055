import type { AuditSource } from '../../core/audit-entry.ts'
import { AppError, badRequest, notFound } from '../../core/errors.ts'
import { type Identity, SYSTEM, type UserIdentity } from '../../core/identity.ts'
import { pageEnvelope } from '../../core/page.ts'
import { grantOf } from '../../core/scope.ts'
import { randomHex, sha256 } from '../../core/secret.ts'
import { audited, auditStatement, MADE_ROW } from '../../db/audit.ts'
import type { Db, Tx } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import { requireOwnFactor } from '../../identity/second-factor.ts'
import { lockAccount, lockCaller } from '../../identity/users.ts'
import * as q from './sql.ts'

const PREFIX_LENGTH = 12

/** Of a user; and as many revoked ones stay listed. */
const MAX_KEYS = 100

export type KeyRights = Pick<q.NewKey, 'name' | 'scope' | 'allowedTables' | 'orgId'>
type KeyRow = {
  id: string
  userId: string
  email: string
  scope: string
  tables: string[]
  appId: string | null
  orgId: string | null
  expiresAt: Date | null
}

/** With the account locked, so that the count stays true. */
async function insert(
  tx: Tx,
  input: Omit<q.NewKey, 'hash' | 'prefix'>,
  statementOf: (insertion: Sql) => Sql,
): Promise<{ key: string; apiKey: q.KeyRecord }> {
  const [live] = await tx.rows<{ count: number }>(q.countLiveKeys(input.userId))
  if (live && live.count >= MAX_KEYS) throw new AppError('limit_reached', `too many API keys: max ${MAX_KEYS}`)
  await tx.run(q.forgetRevokedKeys(input.userId, MAX_KEYS))
  const key = `svc_${randomHex(24)}`
  const insertion = q.insertKey({ ...input, hash: sha256(key), prefix: key.slice(0, PREFIX_LENGTH) })
  const [apiKey] = await tx.rows<q.KeyRecord>(statementOf(insertion))
  if (!apiKey) throw new AppError('internal', 'failed to create api key')
  return { key, apiKey }
}

async function requireMembership(tx: Tx, orgId: string | null, userId: string): Promise<void> {
  if (orgId !== null && (await tx.run(q.membershipExists(orgId, userId))) === 0)
    throw notFound('organization not found', 'organization_not_found')
}

export function createKeys(db: Db) {
  return {
    ofUser: (userId: string) => db.rows<q.KeyRecord>(SYSTEM, q.keysOfUser(userId)),

    async ofAll({ page, perPage, offset }: { page: number; perPage: number; offset: number }) {
      const [items, [count]] = await Promise.all([
        db.rows<q.KeyRecord>(SYSTEM, q.keysOfAll(perPage, offset)),
        db.rows<{ total: number }>(SYSTEM, q.countKeys),
      ])
      return pageEnvelope(items, page, perPage, count?.total ?? 0)
    },

    /** A key outlives the session that makes it, so a user with a second factor has to have proven it. */
    createOwn: (user: UserIdentity, rights: KeyRights) =>
      db.tx(SYSTEM, async (tx) => {
        await lockCaller(tx, user)
        await requireOwnFactor(tx, user)
        await requireMembership(tx, rights.orgId, user.id)
        return insert(tx, { ...rights, userId: user.id, appId: null, byOperator: false }, (statement) => statement)
      }),

    createFor: (userId: string, appId: string | null, rights: KeyRights, act: AuditSource) =>
      db.tx(SYSTEM, async (tx) => {
        await lockAccount(tx, userId, () => badRequest('user not found', 'unknown_reference'))
        if (appId !== null && (await tx.run(q.appExists(appId))) === 0) {
          throw badRequest('app not found', 'unknown_reference')
        }
        await requireMembership(tx, rights.orgId, userId)
        return insert(tx, { ...rights, userId, appId, byOperator: true }, (statement) =>
          audited(act.audit(), statement, MADE_ROW),
        )
      }),

    /** `owner` null: any user's key, for an administrator. */
    async revoke(id: string, owner: string | null, act?: AuditSource): Promise<void> {
      await db.tx(SYSTEM, async (tx) => {
        if ((await tx.run(q.revokeKey(id, owner))) === 0) throw notFound('api key not found', 'api_key_not_found')
        if (act) await tx.run(auditStatement(act.audit()))
      })
    },

    /** The identity a key stands for; undefined for unknown, revoked and expired keys. */
    resolve: (hash: string) => keyIdentity(db, q.keyByHash(hash)),
    byId: (id: string) => keyIdentity(db, q.keyById(id)),
  }
}

async function keyIdentity(db: Db, query: Sql): Promise<(Identity & { kind: 'key' }) | undefined> {
  const [found] = await db.rows<KeyRow>(SYSTEM, query)
  if (!found) return undefined
  const { id, userId, email, scope, tables, appId, orgId, expiresAt } = found
  return {
    kind: 'key',
    via: 'api_key',
    keyId: id,
    userId,
    email,
    grant: grantOf(scope, tables, appId),
    ...(orgId !== null && { org: orgId }),
    expiresAt: expiresAt && Math.floor(expiresAt.getTime() / 1000),
  }
}
