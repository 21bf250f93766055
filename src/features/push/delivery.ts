import { sleep } from '../../core/clock.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { JobHandler, JobRun } from '../../core/job.ts'
import { isUuid } from '../../core/uuid.ts'
import type { Db } from '../../db/db.ts'
import { GiveUp, RetryIn } from '../../db/queue/queue.ts'
import type { Sql } from '../../db/sql.ts'
import type { PushOutcome, PushProvider } from './provider.ts'
import { deliveryToSend, type PushProviderName, recordFailed, recordInvalid, recordSent, type Status } from './sql.ts'

const KEPT_CHARACTERS = 500
const WRITE_TRIES = 8

type ToSend = {
  id: string
  provider: PushProviderName
  title: string
  body: string
  data: Readonly<Record<string, string>> | null
  status: Status
  deviceId: string
  token: string
  isActive: boolean
}

/**
 * The job type `push_delivery`. A stopping server lets it finish, and a sent delivery is never sent again, to avoid
 * duplicate notifications.
 */
export function deliveryJob(db: Db, providers: Record<PushProviderName, PushProvider>): JobHandler {
  const deliver = async ({ payload, log }: JobRun): Promise<void> => {
    const id = payload['delivery_id']
    if (typeof id !== 'string' || !isUuid(id)) throw new GiveUp('delivery_id is required')
    const [delivery] = await db.rows<ToSend>(SYSTEM, deliveryToSend(id))
    if (!delivery) throw new GiveUp('delivery not found')
    if (delivery.status === 'sent' || delivery.status === 'invalid_token') return
    const outcome: PushOutcome = delivery.isActive
      ? await providers[delivery.provider].send({ ...delivery, data: delivery.data ?? {} })
      : { kind: 'invalid', code: 'inactive', message: 'the device is not active' }
    await write(db, recordOf(delivery, outcome))
    log(outcome.kind === 'sent' ? 'sent' : `${outcome.kind}: ${outcome.code}`)
    if (outcome.kind === 'refused') throw new GiveUp(outcome.code)
    if (outcome.kind !== 'failed') return
    throw outcome.retryAfter === undefined ? new Error(outcome.code) : new RetryIn(outcome.retryAfter, outcome.code)
  }
  return Object.assign(deliver, { finishes: true as const })
}

function recordOf({ id, deviceId, token }: ToSend, outcome: PushOutcome): Sql {
  if (outcome.kind === 'sent') return recordSent(id, deviceId, outcome.messageId)
  const [code, message] = [outcome.code, outcome.message].map((text) =>
    text.replaceAll('\0', '').replaceAll(token, '…').slice(0, KEPT_CHARACTERS),
  ) as [string, string]
  return outcome.kind === 'invalid'
    ? recordInvalid(id, deviceId, token, code, message)
    : recordFailed(id, code, message)
}

/** Retries through a short outage of the database, because an unrecorded delivery would be sent again. */
async function write(db: Db, statement: Sql): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await db.run(SYSTEM, statement)
      return
    } catch (error) {
      if (tries === WRITE_TRIES) throw error
      await sleep(100 * 2 ** tries)
    }
  }
}
