import assert from 'node:assert/strict'
import { SYSTEM } from '../../src/core/identity.ts'
import type { Observation } from '../../src/core/observe.ts'
import { Queue } from '../../src/db/queue/queue.ts'
import { sql } from '../../src/db/sql.ts'
import { createOutgoing } from '../../src/http/out/outgoing.ts'
import { type Receiver, startReceiver } from '../fakes/receiver.ts'
import { testDatabase } from './database.ts'
import { eventually } from './eventually.ts'

/** What mails and text messages leave through, without a server: a database with its queue, and peers that get them. */
export async function messageTest() {
  const observations: Observation[] = []
  const observe = (observation: Observation) => void observations.push(observation)
  const { open, atEnd } = await testDatabase(observe)
  const db = await open()
  const outgoing = createOutgoing({ allowPrivateNetworks: true })
  atEnd(() => outgoing.stop())
  return {
    db,
    outgoing,
    observe,
    observations,
    atEnd,
    /** As one process of the service has it; its end is the end of that process. */
    newQueue(): Queue {
      const queue = new Queue({ db, observe })
      queue.start()
      atEnd(() => queue.stop())
      return queue
    },
    /** A gateway that answers the n-th message, counted from 1, with the status of this. */
    async gateway(status: (n: number) => number): Promise<Receiver> {
      const receiver = await startReceiver((_request, response) => {
        response.writeHead(status(receiver.received.length)).end('{}')
      })
      atEnd(() => receiver.close())
      return receiver
    },
    queued: () => db.rows(SYSTEM, sql`select payload from svc.queue`),
    /** What is in the queue may try again now. */
    hurry: () => db.run(SYSTEM, sql`update svc.queue set run_at = now() where worker is null`),
    async allSent(): Promise<void> {
      await eventually(async () => assert.deepEqual(await this.queued(), []))
    },
    /** Why the last attempt at the only message in the queue failed. */
    failure: () =>
      eventually(async () => {
        const [row] = await db.rows<{ last_error: string | null }>(SYSTEM, sql`select last_error from svc.queue`)
        assert.ok(row?.last_error)
        return row.last_error
      }),
  }
}
