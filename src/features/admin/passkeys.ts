import { AppError, badRequest, notFound, unauthorized } from '../../core/errors.ts'
import { adminOf, SYSTEM } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { isUuid } from '../../core/uuid.ts'
import { auditStatement, changeAudited } from '../../db/audit.ts'
import type { Db, Tx } from '../../db/db.ts'
import { json, jsonText, noContent, type Route, route } from '../../http/route.ts'
import { type OnRefused, ready, verifyAssertion, verifyAttestation } from '../../identity/webauthn/ceremony.ts'
import { creationOptions, newChallenge, requestOptions, userHandleOf } from '../../identity/webauthn/challenge.ts'
import { makeDecoyKey } from '../../identity/webauthn/public-key.ts'
import type { RelyingParty } from '../../identity/webauthn/relying-party.ts'
import { readAssertion, readAttestation } from '../../identity/webauthn/response.ts'
import { assertion, challenge } from '../../identity/webauthn/schemas.ts'
import { markAsDashboard } from './dashboard-session.ts'
import * as q from './passkeys-sql.ts'
import { lockedFactor, namedOf } from './second-factor.ts'
import { factorEnrolled } from './second-factor-sql.ts'

const MAX_PASSKEYS = 50
const MAX_NAME = 100

const credential = t.object({
  credential_id: t.string({ description: 'base64url' }),
  display_name: t.string(),
  transports: t.array(t.string()),
  created_at: t.time(),
  last_used_at: t.optional(t.time()),
})

type PasskeySignInDeps = Pick<AdminPasskeyDeps, 'db' | 'relyingParty' | 'onRefused' | 'issueNamed'>

export type AdminPasskeyDeps = {
  db: Db
  relyingParty: () => RelyingParty
  onRefused: OnRefused
  dropEnded: () => Promise<void>
  /** Throws while administrators cannot sign in. */
  requires: () => void
  /** A token of a sign-in with both factors, in the transaction that proved them. */
  issueNamed(tx: Tx, adminId: string): Promise<string>
}

const refused = () => unauthorized('invalid passkey', 'invalid_credentials')

type PasskeyAnswer = { challenge_id: string; assertion_response: unknown }

/** A token of the administrator whose passkey answered; 401 for whatever is wrong with it. */
export function createAdminPasskeySignIn(deps: PasskeySignInDeps): (given: PasskeyAnswer) => Promise<string> {
  const { db, relyingParty } = deps
  let decoyKey: string | undefined
  return async (body) => {
    const response = readAssertion(body.assertion_response)
    if (!response || !isUuid(body.challenge_id)) throw refused()
    const [found] = await db.rows<q.AdminSignIn>(SYSTEM, q.adminSignIn(body.challenge_id, response.id))
    if (!found) throw refused()
    const { adminId } = found
    decoyKey ??= makeDecoyKey()
    const expected = {
      challenge: found.challenge,
      publicKey: found.publicKey ?? decoyKey,
      userHandle: adminId === null ? '' : userHandleOf(adminId),
      userHandlePresence: 'required',
      userVerification: 'required',
    } as const
    const signCount = await verifyAssertion(relyingParty(), response, expected, deps.onRefused)
    if (signCount === undefined || adminId === null) throw refused()
    const token = await db.tx(SYSTEM, async (tx) => {
      await lockedFactor(tx, adminId).catch(() => {
        throw refused()
      })
      if ((await tx.run(q.takeAdminChallenge(body.challenge_id))) === 0) return undefined
      // A cloned authenticator is refused after the commit, so that its challenge stays spent.
      if ((await tx.run(q.countAdminPasskey(response.id, adminId, signCount))) === 0) return undefined
      return deps.issueNamed(tx, adminId)
    })
    if (token === undefined) throw refused()
    return token
  }
}

/** Passkeys of administrators: one that verifies its user is both factors at once. */
export function adminPasskeyRoutes(deps: AdminPasskeyDeps): Route[] {
  const { db, relyingParty, requires } = deps
  const own = { auth: 'admin', leastRole: 'viewer', enrols: true } as const
  // As of any further factor: a stolen token alone adds none and removes none.
  const fresh = { ...own, freshFactor: true } as const
  const signIn = createAdminPasskeySignIn(deps)

  return [
    route('POST /api/admin/auth/passkey/begin', {
      summary: 'Ask for any passkey of an administrator',
      auth: 'none',
      limit: 'admin_login',
      requires,
      bodyKind: 'none',
      answers: { 200: challenge },
      handle: async () => {
        const asked = newChallenge('discover')
        await db.run(SYSTEM, q.insertAdminChallenge(asked, null))
        return json(200, requestOptions(relyingParty(), asked, { userVerification: 'required' }))
      },
    }),
    route('POST /api/admin/auth/passkey/finish', {
      summary: 'Sign in as the administrator whose passkey it is',
      auth: 'none',
      limit: 'admin_login',
      requires,
      body: t.merged(assertion, t.object({ client: t.optional(t.oneOf(['dashboard'])) })),
      answers: { 200: t.object({ token: t.string() }) },
      handle: async ({ body }) => {
        const token = await signIn(body)
        if (body.client === 'dashboard') await markAsDashboard(db, token)
        return json(200, { token })
      },
    }),
    route('POST /api/admin/mfa/passkey/enroll', {
      summary: 'Begin to add a passkey to your own account of an administrator',
      ...fresh,
      audit: 'admin.passkey_enroll',
      bodyKind: 'none',
      answers: { 200: t.record(t.any(), { description: 'PublicKeyCredentialCreationOptions in JSON form' }) },
      handle: async (call) => {
        const id = namedOf(call.who)
        const pending = newChallenge('enroll')
        const work = async (tx: Tx) => {
          const { email } = await lockedFactor(tx, id)
          const existing = await tx.rows<{ id: string; transports: string[] }>(q.adminPasskeysOf(id))
          if (existing.length >= MAX_PASSKEYS)
            throw new AppError('limit_reached', `too many passkeys: max ${MAX_PASSKEYS}`)
          await tx.run(q.dropAdminEnrolment(id))
          await tx.run(q.insertAdminChallenge(pending, id))
          return { email, existing }
        }
        const { email, existing } = await changeAudited(db, work, () => call.audit({ target: id }))
        return json(200, creationOptions(relyingParty(), pending, { userId: id, userName: email, existing }))
      },
    }),
    route('POST /api/admin/mfa/passkey/enroll/confirm', {
      summary: 'Add the passkey that the authenticator made; with the first factor your other tokens end',
      ...fresh,
      audit: 'admin.passkey_confirm',
      body: t.object({
        display_name: t.optional(t.string({ maxLength: MAX_NAME })),
        attestation_response: t.record(t.any(), {
          description: 'the PublicKeyCredential in JSON form',
          refusal: 'invalid attestation response',
        }),
      }),
      answers: { 200: t.object({ credential }) },
      handle: async (call) => {
        const id = namedOf(call.who)
        const { tokenId } = adminOf(call.who)
        const response = readAttestation(call.body.attestation_response)
        if (!response) throw badRequest('invalid attestation response')
        await ready()
        const made = await db.tx(SYSTEM, async (tx) => {
          const factor = await lockedFactor(tx, id)
          const [pending] = await tx.rows<{ challenge: string }>(q.pendingAdminEnrolment(id))
          if (!pending) throw notFound('no pending WebAuthn enrollment found', 'enrolment_not_found')
          const proven = await verifyAttestation(relyingParty(), response, pending.challenge, deps.onRefused)
          if (!proven) throw badRequest('WebAuthn enrollment verification failed')
          const name = call.body.display_name?.trim() || 'passkey'
          const [stored] = await tx.rows<{ credential: unknown }>(q.insertAdminPasskey(id, name, proven))
          if (!stored) throw new AppError('already_exists', 'credential already registered')
          await tx.run(q.dropAdminEnrolment(id))
          if (!factor.isConfirmed && !factor.hasPasskey)
            for (const statement of factorEnrolled(id, tokenId)) await tx.run(statement)
          await tx.run(auditStatement(call.audit({ target: id, newValues: { passkey: name } })))
          return stored.credential
        })
        await deps.dropEnded()
        return json(200, { credential: made })
      },
    }),
    route('GET /api/admin/mfa/passkey/credentials', {
      summary: 'Your own passkeys, oldest first',
      ...own,
      answers: { 200: t.object({ credentials: t.array(credential) }) },
      handle: async ({ who }) => jsonText(200, (await db.fly(SYSTEM, q.listAdminPasskeys(namedOf(who)))) ?? ''),
    }),
    route('DELETE /api/admin/mfa/passkey/credentials/{credential_id}', {
      summary: 'Remove a passkey of your own',
      ...fresh,
      audit: 'admin.passkey_delete',
      params: { credential_id: t.string({ description: 'base64url without padding' }) },
      answers: { 204: null },
      handle: async (call) => {
        const id = namedOf(call.who)
        const work = async (tx: Tx): Promise<void> => {
          await lockedFactor(tx, id)
          if ((await tx.run(q.deleteAdminPasskey(id, call.params.credential_id))) === 0)
            throw notFound('credential not found', 'factor_not_found')
        }
        await changeAudited(db, work, () => call.audit({ target: id }))
        return noContent
      },
    }),
  ]
}
