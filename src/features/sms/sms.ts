import type { Observe } from '../../core/observe.ts'
import type { Queue } from '../../db/queue/queue.ts'
import { type Sql, sql } from '../../db/sql.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import { countriesOf } from './countries.ts'
import { logSmsTransport } from './log-transport.ts'
import type { Sms, SmsConfig, SmsTransport } from './transport.ts'
import { twilioTransport } from './twilio-transport.ts'
import { webhookSmsTransport } from './webhook-transport.ts'

const KIND = 'sms'
/** Codes expire within minutes, so a later message is useless. */
const RETRY_DELAYS = [2, 5, 15, 60]

export type SmsSender = {
  /**
   * A statement for the caller's own flight; call `wakeSms` once it committed. It silently queues
   * nothing if the number's country is not allowed or the daily limit is reached.
   */
  queueSms(to: string, body: string): Sql
  wakeSms(): void
  start(): void
  /** Whether numbers of this country get messages at all. */
  isAllowedNumber(phone: string): boolean
}

export function createSms(deps: {
  queue: Queue
  outgoing: Outgoing
  observe: Observe
  config: SmsConfig
  /** Sends in place of the transport, unless it resolves to false. */
  sendByHook?: ((sms: Sms) => Promise<boolean>) | undefined
}): SmsSender {
  const { queue, observe, config } = deps
  const transport = transportOf(deps)
  const send = async (sms: Sms): Promise<void> => {
    if (!(await deps.sendByHook?.(sms))) await transport.send(sms)
    observe({ message: 'sms sent' })
  }

  const isAllowedNumber = (phone: string): boolean => {
    const allowed = config.sms_allowed_countries
    return allowed.length === 0 || countriesOf(phone).some((country) => allowed.includes(country))
  }

  return {
    isAllowedNumber,
    queueSms(to, body) {
      if (!isAllowedNumber(to)) return sql`select where false`
      const sms: Sms = { to, body }
      return config.sms_daily_limit === 0
        ? queue.push(KIND, sms)
        : queue.push(KIND, sms, { forEach: takeOneOfToday(config.sms_daily_limit) })
    },
    wakeSms: () => queue.wake(KIND),
    start: () =>
      queue.work(KIND, { concurrency: 4, leaseSeconds: 30, retryDelays: RETRY_DELAYS, finishes: true }, (item) =>
        send(item.payload as Sms),
      ),
  }
}

/** Returns a row unless the daily limit (UTC, by the database's clock) is reached; concurrent calls are serialised. */
const takeOneOfToday = (limit: number): Sql => sql`
  insert into svc.sms_days as today (day, sent) values ((now() at time zone 'UTC')::date, 1)
  on conflict (day) do update set sent = today.sent + 1 where today.sent < ${limit}::int
  returning today.sent`

function transportOf({
  config,
  outgoing,
  observe,
}: {
  config: SmsConfig
  outgoing: Outgoing
  observe: Observe
}): SmsTransport {
  switch (config.sms_provider) {
    case 'log':
      return logSmsTransport(observe)
    case 'webhook':
      return webhookSmsTransport(config, outgoing)
    case 'twilio':
      return twilioTransport(config, outgoing)
  }
}
