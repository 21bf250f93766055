import type { Config } from '../config/config.ts'
import { createEmail } from '../features/email/routes.ts'
import { createAuthHooks } from '../features/hooks/hooks.ts'
import { createSms } from '../features/sms/sms.ts'
import type { Platform } from './platform.ts'

/** Features that send mail and SMS. */
export function createMessages(
  config: Config,
  { db, queue, gateways, observe, noHookFunctions: noFunctions }: Platform,
) {
  const outgoing = gateways
  const hooks = createAuthHooks({
    db,
    outgoing,
    observe,
    config: config.auth.hooks,
    maxConns: config.database.max_conns,
    noFunctions,
  })
  const email = createEmail({
    db,
    queue,
    outgoing,
    observe,
    config: config.email,
    appName: config.server.app_name,
    sendByHook: hooks.sendEmail,
  })
  const sms = createSms({ queue, outgoing, observe, config: config.auth, sendByHook: hooks.sendSms })
  return { email, sms, hooks, features: [email, sms] }
}

export type Messages = ReturnType<typeof createMessages>
