import { AppError, badRequest, found, unauthorized } from '../../core/errors.ts'
import { type Identity, SYSTEM } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { SecretBox } from '../../core/secret-box.ts'
import { auditStatement, changeAudited } from '../../db/audit.ts'
import type { Db, Tx } from '../../db/db.ts'
import type { SealedColumn } from '../../db/sealed.ts'
import { sql } from '../../db/sql.ts'
import { json, noContent, type Route, route } from '../../http/route.ts'
import { base32, newSecret, otpauthUri, stepAt, timeStep } from '../../identity/totp-code.ts'
import { typedCode } from '../../identity/typed-code.ts'
import * as q from './second-factor-sql.ts'

const MAX_WRONG_CODES = 5
const LOCK_SECONDS = 900

export const adminTotpSecrets: SealedColumn = {
  name: 'TOTP secrets of administrators',
  table: sql`svc.admins`,
  id: sql`id`,
  idType: sql`uuid`,
  sealed: sql`totp_secret`,
  store: (text) => sql`totp_secret = ${text}`,
  context: (adminId) => `admin totp ${adminId}`,
}

export type SecondFactorDeps = { db: Db; box: SecretBox; appName: string; dropEnded: () => Promise<void> }

/** Codes of an authenticator app, checked with the administrator's row locked. */
export const createCodeCheck =
  (box: SecretBox) =>
  /** Spends the step of the code. Resolves to the error of a wrong one, which has to be thrown after the commit. */
  async (tx: Tx, factor: q.AdminFactor, code: string): Promise<AppError | undefined> => {
    if (factor.lockedSeconds > 0) {
      const headers = { 'Retry-After': String(factor.lockedSeconds) }
      throw new AppError('too_many_attempts', 'too many wrong codes', { headers })
    }
    const secret = secretOf(box, factor)
    const step = timeStep(secret, typedCode(code), stepAt(factor.epoch))
    if (step === undefined) {
      await tx.run(q.countWrongAdminCode(factor.id, MAX_WRONG_CODES, LOCK_SECONDS))
      return unauthorized('invalid TOTP code', 'invalid_code')
    }
    // A used code is not a guess, so it is not counted as a failure.
    if (step <= factor.lastStep) return unauthorized('TOTP code already used', 'invalid_code')
    await tx.run(q.spendAdminStep(factor.id, step))
    return undefined
  }

function secretOf(box: SecretBox, { id, secret }: q.AdminFactor): Buffer {
  try {
    return Buffer.from(box.open(secret, adminTotpSecrets.context(id)), 'hex')
  } catch (error) {
    const words =
      'the secret of this authenticator app cannot be read: its key is missing in auth.previous_encryption_keys'
    throw new AppError('secret_unreadable', words, { cause: error })
  }
}

/** Each administrator enrols an app of their own, whatever the role. */
export function secondFactorRoutes({ db, box, appName, dropEnded }: SecondFactorDeps): Route[] {
  const check = createCodeCheck(box)
  const own = { auth: 'admin', leastRole: 'viewer', enrols: true } as const
  return [
    route('POST /api/admin/mfa/totp/enroll', {
      summary: 'Begin to add an authenticator app to your own account of an administrator',
      ...own,
      freshFactor: true,
      audit: 'admin.totp_enroll',
      answers: { 200: t.object({ uri: t.string(), secret: t.string() }) },
      handle: async (call) => {
        const id = namedOf(call.who)
        const secret = newSecret()
        const sealed = box.seal(secret.toString('hex'), adminTotpSecrets.context(id))
        const work = async (tx: Tx): Promise<q.AdminFactor> => {
          const factor = await lockedFactor(tx, id)
          if (factor.isConfirmed) throw new AppError('already_enrolled', 'TOTP MFA already enrolled')
          await tx.run(q.startTotp(id, sealed))
          return factor
        }
        const { email } = await changeAudited(db, work, () => call.audit({ target: id }))
        return json(200, { uri: otpauthUri(appName, email, secret), secret: base32(secret) })
      },
    }),
    route('POST /api/admin/mfa/totp/enroll/confirm', {
      summary: 'Confirm the app with a code; your other tokens end',
      ...own,
      audit: 'admin.totp_confirm',
      body: t.object({ code: t.string() }),
      answers: { 204: null },
      handle: async (call) => {
        const id = namedOf(call.who)
        const { tokenId } = call.who as Extract<Identity, { kind: 'admin' }>
        const wrong = await db.tx(SYSTEM, async (tx) => {
          const factor = await lockedFactor(tx, id)
          if (factor.isConfirmed || !factor.isPending)
            throw new AppError('enrolment_not_found', 'no pending TOTP enrolment found')
          const refusal = await check(tx, factor, call.body.code)
          if (refusal) return refusal
          const entry = auditStatement(call.audit({ target: id }))
          for (const statement of [...q.confirmTotp(id, tokenId), entry]) await tx.run(statement)
          return undefined
        })
        if (wrong) throw wrong
        await dropEnded()
        return noContent
      },
    }),
  ]
}

export async function lockedFactor(tx: Tx, id: string): Promise<q.AdminFactor> {
  const [factor] = await tx.rows<q.AdminFactor>(q.lockFactor(sql`id = ${id}::uuid`))
  return found(factor, 'administrator not found', 'user_not_found')
}

export function namedOf(who: Identity): string {
  if (who.kind === 'admin' && who.adminId !== undefined) return who.adminId
  throw badRequest('the shared password has no second factor: sign in by name')
}
