import type { Sql } from '../../db/sql.ts'
import type { QueueMail } from '../../identity/mail-links.ts'

/** A mail about what happened to a passkey, for the owner of the account; part of the transaction in which it happens. */
export type PasskeyNotice = (email: string, displayName: string, whatHappened: string) => Sql[]

export const passkeyNotice =
  (deps: { queueMail: QueueMail; appName: string }): PasskeyNotice =>
  (email, displayName, whatHappened) => {
    // An account that came by phone has nowhere to be written to.
    if (email === '') return []
    const which = displayName === '' ? 'A passkey' : `The passkey “${displayName}”`
    const Notice = `${which} of your ${deps.appName} account was ${whatHappened}.`
    return [deps.queueMail('auth.security_notice', email, { Notice })]
  }
