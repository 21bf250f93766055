import type { AuditSource } from '../../core/audit-entry.ts'
import { AppError, badRequest, notFound } from '../../core/errors.ts'
import { type Identity, SYSTEM } from '../../core/identity.ts'
import { pageEnvelope } from '../../core/page.ts'
import { grantOf } from '../../core/scope.ts'
import { randomHex, sha256 } from '../../core/secret.ts'
import { audited, auditStatement, MADE_ROW } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import * as q from './sql.ts'

const PREFIX_LENGTH = 12

export type KeyInput = Pick<q.NewKey, 'userId' | 'name' | 'scope' | 'allowedTables' | 'appId'>
type KeyRow = {
  id: string
  userId: string
  email: string
  scope: string
  tables: string[]
  appId: string | null
  expiresAt: Date | null
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

    /** `act` is given when an administrator creates the key, and is audited. */
    async create(input: KeyInput, act?: AuditSource): Promise<{ key: string; apiKey: q.KeyRecord }> {
      const key = `svc_${randomHex(24)}`
      const insertion = q.insertKey({ ...input, hash: sha256(key), prefix: key.slice(0, PREFIX_LENGTH) })
      const [apiKey] = await db.rows<q.KeyRecord>(SYSTEM, act ? audited(act.audit(), insertion, MADE_ROW) : insertion)
      if (!apiKey) throw new AppError('internal', 'failed to create api key')
      return { key, apiKey }
    },

    async requireOwners(userId: string, appId: string | null): Promise<void> {
      const [found] = await db.rows<{ user: boolean; app: boolean }>(SYSTEM, q.ownersExist(userId, appId))
      if (!found?.user) throw badRequest('user not found', 'unknown_reference')
      if (!found.app) throw badRequest('app not found', 'unknown_reference')
    },

    /** `owner` null: any user's key, for an administrator. */
    async revoke(id: string, owner: string | null, act?: AuditSource): Promise<void> {
      await db.tx(SYSTEM, async (tx) => {
        if ((await tx.run(q.revokeKey(id, owner))) === 0) throw notFound('api key not found', 'api_key_not_found')
        if (act) await tx.run(auditStatement(act.audit()))
      })
    },

    /** The identity a key stands for; undefined for unknown, revoked and expired keys. */
    async resolve(hash: string): Promise<(Identity & { kind: 'key' }) | undefined> {
      const [found] = await db.rows<KeyRow>(SYSTEM, q.keyByHash(hash))
      if (!found) return undefined
      const { id, userId, email, scope, tables, appId, expiresAt } = found
      return {
        kind: 'key',
        via: 'api_key',
        keyId: id,
        userId,
        email,
        grant: grantOf(scope, tables, appId),
        expiresAt: expiresAt && Math.floor(expiresAt.getTime() / 1000),
      }
    },
  }
}
