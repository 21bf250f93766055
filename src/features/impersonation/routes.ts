import { randomUUID } from 'node:crypto'
import { AppError, notFound, unauthorized } from '../../core/errors.ts'
import { type Identity, type Impersonation, isOwner, SYSTEM, writeRefusal } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { randomHex, sha256 } from '../../core/secret.ts'
import { changeAudited } from '../../db/audit.ts'
import type { Tx } from '../../db/db.ts'
import type { Feature } from '../../http/feature.ts'
import { requireFreshFactor } from '../../http/guard.ts'
import { json, route } from '../../http/route.ts'
import { type Subject, subjectFields, subjectName, subjectOf } from '../../identity/subject.ts'
import { findImpersonation, forgetEnded, insertImpersonation } from './sql.ts'
import { identityOf, type SubjectDeps } from './subjects.ts'

const SECONDS = 300
const TOKEN = /^svc_im_[0-9a-f]{64}$/

type Admin = Extract<Identity, { kind: 'admin' }>
type FoundToken = {
  id: string
  adminTokenId: string
  subject: Subject
  mayWrite: boolean
  expiresAt: number
  adminId: string | null
  email: string | null
}

export type ImpersonationFeature = Feature & {
  /** The identity behind a token; undefined for one that has ended. */
  resolve(token: string): Promise<Identity | undefined>
  /** As whom admin SQL runs; 404 where there is no such caller. */
  identityFor(admin: Admin, subject: Subject, write: boolean): Promise<Identity>
}

/** An administrator acts as another caller, by a token that the database, the guard and the audit trail know as such. */
export function createImpersonation(deps: SubjectDeps): ImpersonationFeature {
  const { db } = deps

  const identityFor = async (admin: Admin, subject: Subject, write: boolean): Promise<Identity> => {
    requireMayActAs(admin, subject)
    const who = await identityOf(deps, subject, {
      id: randomUUID(),
      adminTokenId: admin.tokenId,
      ...namesOf(admin.adminId, admin.email),
      write,
      expiresAt: admin.expiresAt,
    })
    if (who) return who
    throw 'key_id' in subject
      ? notFound('api key not found', 'api_key_not_found')
      : notFound('user not found', 'user_not_found')
  }

  const routes = [
    route('POST /api/admin/impersonate', {
      summary:
        'A token of five minutes to act as a user, a key, a visitor or any claims; it reads unless `write` is true',
      auth: 'admin',
      leastRole: 'operator',
      readsToo: true,
      audit: 'admin.impersonate',
      body: t.object({ ...subjectFields, write: t.optional(t.boolean({ default: false })) }),
      answers: { 201: t.object({ token: t.string(), expires_at: t.time() }) },
      handle: async (call) => {
        const admin = call.who as Admin
        const { write = false } = call.body
        const subject = subjectOf(call.body)
        if (write && admin.isLocked) throw writeRefusal(admin)
        await identityFor(admin, subject, write)
        const token = `svc_im_${randomHex(32)}`
        const made = {
          tokenHash: sha256(token),
          adminTokenId: admin.tokenId,
          subject: JSON.stringify(subject),
          write,
          seconds: SECONDS,
          isLockable: admin.isLockable === true,
        }
        const insert = async (tx: Tx): Promise<string> => {
          await tx.run(forgetEnded)
          const [row] = await tx.rows<{ expiresAt: string }>(insertImpersonation(made))
          if (row) return row.expiresAt
          throw unauthorized('admin authentication required', 'admin_required')
        }
        const note = { target: subjectName(subject), newValues: { ...subject, write } }
        const expiresAt = await changeAudited(db, insert, () => call.audit(note))
        return json(201, { token, expires_at: expiresAt })
      },
    }),
  ]

  return {
    routes,
    identityFor,
    async resolve(token) {
      if (!TOKEN.test(token)) return undefined
      const [found] = await db.rows<FoundToken>(SYSTEM, findImpersonation(sha256(token)))
      if (!found) return undefined
      const { id, adminTokenId, subject, mayWrite: write, expiresAt } = found
      const names = namesOf(found.adminId ?? undefined, found.email ?? undefined)
      const impersonation: Impersonation = { id, adminTokenId, ...names, write, expiresAt }
      return identityOf(deps, subject, impersonation)
    },
  }
}

/** By `claims` an administrator could be anyone. */
function requireMayActAs(admin: Identity, subject: Subject): void {
  if (!('claims' in subject)) return
  if (!isOwner(admin)) throw new AppError('insufficient_role', 'claims need the role owner')
  requireFreshFactor(admin)
}

const namesOf = (adminId: string | undefined, email: string | undefined) => ({
  by: email ?? 'admin',
  ...(adminId !== undefined && { adminId }),
})
