import { type Identity, type Impersonation, SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import type { Subject, SubjectClaims } from '../../identity/subject.ts'
import { userById } from './sql.ts'

type UserRow = { id: string; email: string; isAnonymous: boolean }
type KeyIdentity = Extract<Identity, { kind: 'key' }>

export type SubjectDeps = {
  db: Db
  /** Undefined for unknown, revoked and expired keys. */
  keyById: (id: string) => Promise<KeyIdentity | undefined>
}

/** The caller that an administrator acts as; undefined where there is none. */
export async function identityOf(
  { db, keyById }: SubjectDeps,
  subject: Subject,
  impersonation: Impersonation,
): Promise<Identity | undefined> {
  if ('anonymous' in subject) return { kind: 'anonymous', impersonation }
  if ('claims' in subject) return claimed(subject.claims, impersonation)
  if ('key_id' in subject) {
    const key = await keyById(subject.key_id)
    return key && { ...key, impersonation }
  }
  const [user] = await db.rows<UserRow>(SYSTEM, userById(subject.user_id))
  return user && { ...user, ...COMMON, kind: 'user', aal: 'aal1', ...tokenOf(impersonation) }
}

const COMMON = { amr: [] as const }

const tokenOf = (impersonation: Impersonation) => ({
  sessionId: impersonation.id,
  expiresAt: impersonation.expiresAt,
  impersonation,
})

function claimed({ sub, email = '', aal = 'aal1', ...further }: SubjectClaims, impersonation: Impersonation): Identity {
  const claims = Object.keys(further).length > 0 ? { claims: JSON.stringify(further) } : {}
  const who = { kind: 'user', id: sub.toLowerCase(), email, aal, isAnonymous: false } as const
  return { ...who, ...COMMON, ...claims, ...tokenOf(impersonation) }
}
