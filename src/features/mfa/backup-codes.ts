import { randomInt } from 'node:crypto'
import { unauthorized } from '../../core/errors.ts'
import { type PendingIdentity, pendingOf, SYSTEM, type UserIdentity, userOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { hmacSha256 } from '../../core/secret.ts'
import type { Db } from '../../db/db.ts'
import { sql } from '../../db/sql.ts'
import { type Call, json, type Route, route } from '../../http/route.ts'
import { signedIn } from '../../identity/responses.ts'
import { requireAal2, type Verification } from '../../identity/second-factor.ts'
import { type AuthResponse, type Device, deviceOf } from '../../identity/session.ts'
import { lockCaller } from '../../identity/users.ts'
import * as q from './sql.ts'

/** Without letters and digits that are easily confused on paper. */
const ALPHABET = 'abcdefghjkmnpqrstuvwxyz23456789'
const COUNT = 10
const GROUP = 5

const newGroup = (): string => Array.from({ length: GROUP }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')
const newCode = (): string => `${newGroup()}-${newGroup()}`

/** Typed codes may have any case, hyphens and spaces. */
const plain = (code: string): string => code.toLowerCase().replace(/[\s-]/g, '')

/** Ten single-use codes for a user who lost the other factors. */
export function createBackupCodes(deps: { db: Db; verification: Verification; codeKey: () => Promise<Buffer> }) {
  const { db, verification } = deps
  const hashOf = (key: Buffer, userId: string, code: string): string =>
    hmacSha256(key, `${userId} ${plain(code)}`).toString('hex')

  return {
    /** Replaces all earlier ones. */
    async generate(user: UserIdentity): Promise<string[]> {
      requireAal2(user)
      const codes = new Set<string>()
      while (codes.size < COUNT) codes.add(newCode())
      const key = await deps.codeKey()
      const hashes = [...codes].map((code) => hashOf(key, user.id, code))
      await db.tx(SYSTEM, async (tx) => {
        await lockCaller(tx, user)
        await tx.run(q.dropBackupCodes(user.id))
        await tx.run(q.insertBackupCodes(user.id, hashes))
      })
      return [...codes]
    },

    async remaining(userId: string): Promise<number> {
      const [row] = await db.rows<{ remaining: number }>(SYSTEM, q.remainingCodes(sql`${userId}::uuid`))
      return row?.remaining ?? 0
    },

    async verify(who: PendingIdentity, code: string, device: Device): Promise<AuthResponse> {
      const hash = hashOf(await deps.codeKey(), who.id, code)
      return verification.attempt(who, 'backup_code', device, async (tx) => {
        const [found] = await tx.rows<{ is_used: boolean }>(q.backupCode(who.id, hash))
        const refused = unauthorized('invalid or already used backup code', 'invalid_code')
        if (!found) return refused
        // A used code is not a guess, so it is not counted as a failure.
        if (found.is_used) throw refused
        await tx.run(q.spendBackupCode(who.id, hash))
        return undefined
      })
    },
  }
}

export function backupCodeRoutes(backupCodes: ReturnType<typeof createBackupCodes>): Route[] {
  const generate = {
    summary: 'Ten new backup codes; earlier ones end',
    auth: 'user' as const,
    bodyKind: 'none' as const,
    answers: { 200: t.object({ codes: t.array(t.string(), { description: 'shown once' }) }) },
    handle: async ({ who }: Pick<Call, 'who'>) => json(200, { codes: await backupCodes.generate(userOf(who)) }),
  }
  return [
    route('POST /api/auth/mfa/backup/generate', generate),
    route('POST /api/auth/mfa/backup/regenerate', generate),
    route('POST /api/auth/mfa/backup/verify', {
      summary: 'Use a backup code as second factor',
      auth: 'mfa',
      limit: 'mfa_verify',
      body: t.object({ code: t.string() }),
      answers: { 200: signedIn },
      handle: async (call) => json(200, await backupCodes.verify(pendingOf(call.who), call.body.code, deviceOf(call))),
    }),
    route('GET /api/auth/mfa/backup/count', {
      summary: 'How many backup codes are left',
      auth: 'user',
      answers: { 200: t.object({ remaining: t.integer() }) },
      handle: async ({ who }) => json(200, { remaining: await backupCodes.remaining(userOf(who).id) }),
    }),
  ]
}
