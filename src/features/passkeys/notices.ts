import type { Sql } from '../../db/sql.ts'
import type { IdentityDeps } from '../../identity/deps.ts'

/** Statements that queue a mail to the account's owner about a change of a passkey, in its transaction. */
export type PasskeyNotice = (email: string, displayName: string, whatHappened: string) => Sql[]

export const passkeyNotice =
  (deps: Pick<IdentityDeps, 'queueMail' | 'appName'>): PasskeyNotice =>
  (email, displayName, whatHappened) => {
    // An account that signed up by phone has no address.
    if (email === '') return []
    const which = displayName === '' ? 'A passkey' : `The passkey “${displayName}”`
    const Notice = `${which} of your ${deps.appName} account was ${whatHappened}.`
    return [deps.queueMail('auth.security_notice', email, { Notice })]
  }
