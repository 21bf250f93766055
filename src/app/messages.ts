import type { Config } from '../config/config.ts'
import { createEmail } from '../features/email/routes.ts'
import { createSms } from '../features/sms/sms.ts'
import type { Platform } from './platform.ts'

/** Features that send mail and SMS. */
export function createMessages(config: Config, { db, queue, gateways, observe }: Platform) {
  const outgoing = gateways
  const email = createEmail({ db, queue, outgoing, observe, config: config.email, appName: config.server.app_name })
  const sms = createSms({ queue, outgoing, observe, config: config.auth })
  return { email, sms, features: [email, sms] }
}

export type Messages = ReturnType<typeof createMessages>
