import { AppError, badRequest, notFound } from '../../core/errors.ts'
import { SYSTEM, type UserIdentity } from '../../core/identity.ts'
import type { Db, Tx } from '../../db/db.ts'
import { type EndsSessions, enrolledUser, requireAal2 } from '../../identity/second-factor.ts'
import { lockCaller } from '../../identity/users.ts'
import { isBase64Url } from '../../identity/webauthn/base64url.ts'
import { MAX_CREDENTIAL_ID } from '../../identity/webauthn/response.ts'
import type { PasskeyNotice } from './notices.ts'
import * as q from './webauthn/sql.ts'

export type Credentials = ReturnType<typeof createCredentials>

/** Names appear in lists and mails: one line without control characters. */
export function displayNameOf(given: string): string {
  const name = given.trim()
  if (/\p{Cc}/u.test(name)) throw badRequest('display_name must not contain control characters')
  return name
}

const missing = () => notFound('WebAuthn credential not found', 'credential_not_found')

/** Management of a user's own passkeys. */
export function createCredentials(deps: { db: Db; notice: PasskeyNotice; wakeMail: () => void } & EndsSessions) {
  const { db } = deps

  /** Runs with the account locked, for a user who proved a second factor, and queues a notice by mail. */
  async function change<T>(
    user: UserIdentity,
    work: (tx: Tx) => Promise<{ name: string; whatHappened: string; result: T }>,
  ): Promise<T> {
    requireAal2(user)
    const changed = await db.tx(SYSTEM, async (tx) => {
      const { email } = await lockCaller(tx, user)
      const { name, whatHappened, result } = await work(tx)
      for (const mail of deps.notice(email, name, whatHappened)) await tx.run(mail)
      return result
    })
    deps.wakeMail()
    return changed
  }

  function checkId(credentialId: string): void {
    if (!isBase64Url(credentialId, MAX_CREDENTIAL_ID)) throw badRequest('invalid credential_id')
  }

  return {
    list: async (userId: string): Promise<string> => (await db.fly(SYSTEM, q.listCredentials(userId))) ?? '',

    async rename(user: UserIdentity, credentialId: string, displayName: string): Promise<unknown> {
      checkId(credentialId)
      if (displayName === '') throw badRequest('display_name is required')
      return change(user, async (tx) => {
        const [row] = await tx.rows<{ credential: unknown }>(q.renameCredential(user.id, credentialId, displayName))
        if (!row) throw missing()
        return { name: displayName, whatHappened: 'renamed', result: row.credential }
      })
    },

    /** Refuses the last passkey; `removeAll` removes the whole factor. */
    async remove(user: UserIdentity, credentialId: string): Promise<void> {
      checkId(credentialId)
      await change(user, async (tx) => {
        const all = await tx.rows<q.StoredPasskey>(q.passkeysOf(user.id))
        if (!all.some(({ id }) => id === credentialId)) throw missing()
        if (all.length === 1) throw new AppError('last_credential', 'cannot delete final WebAuthn credential')
        const [gone] = await tx.rows<{ display_name: string }>(q.deleteCredential(user.id, credentialId))
        return { name: gone?.display_name ?? '', whatHappened: 'deleted', result: undefined }
      })
    },

    /** If no second factor is left, the user's other sessions end; this one is unchanged. */
    async removeAll(user: UserIdentity): Promise<void> {
      const ended = await change(user, async (tx) => {
        const gone = await tx.run(q.deleteCredentials(user.id))
        if (gone === 0) throw notFound('no WebAuthn factor enrolled', 'factor_not_found')
        const isLast = (await tx.run(enrolledUser(user.id))) === 0
        const result = isLast ? await deps.endOthers(tx, user) : []
        const whatHappened = gone === 1 ? 'deleted' : `deleted, with all others (${gone} in all)`
        return { name: '', whatHappened, result }
      })
      deps.onSessionsEnded(ended)
    },
  }
}
