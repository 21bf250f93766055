import { ReplicationConnection } from '../../protocol/replication.ts'

/** Microseconds between 1970 and 2000, where PostgreSQL's time begins. */
const EPOCH = 946_684_800_000_000n
const now = (): bigint => BigInt(Date.now()) * 1000n - EPOCH

export type WalStream = {
  /** Bytes of the log as they arrive; pauses PostgreSQL while they are not taken. */
  bytes(): AsyncGenerator<{ at: bigint; bytes: Buffer; serverEnd: bigint }>
  /** Says up to where the log is durable here. */
  confirm(durable: bigint): void
  stop(): void
}

const WAL = 0x77
const KEEPALIVE = 0x6b

/** Streams the log from a slot (protocol "Streaming Replication Protocol"). */
export async function openWalStream(options: {
  url: string
  /** The name by which `synchronous_standby_names` knows the stream. */
  applicationName: string
  slot: string
  from: string
  timeline: number
}): Promise<WalStream> {
  const { url, applicationName, slot, from, timeline } = options
  const connection = await ReplicationConnection.open({ url, applicationName })
  const events = connection.run(`START_REPLICATION SLOT ${slot} PHYSICAL ${from} TIMELINE ${timeline}`)
  let durable = 0n
  const confirm = (): void => {
    const status = Buffer.alloc(34)
    status.write('r', 0, 'latin1')
    for (const at of [1, 9, 17]) status.writeBigUInt64BE(durable, at)
    status.writeBigInt64BE(now(), 25)
    connection.copyData(status)
  }
  return {
    async *bytes() {
      for await (const event of events) {
        if (event.kind !== 'data') continue
        const [message] = [event.bytes]
        if (message[0] === KEEPALIVE) {
          yield { at: 0n, bytes: Buffer.alloc(0), serverEnd: message.readBigUInt64BE(1) }
          if (message[17] === 1) confirm()
        } else if (message[0] === WAL) {
          const at = message.readBigUInt64BE(1)
          yield { at, bytes: message.subarray(25), serverEnd: message.readBigUInt64BE(9) }
        }
      }
    },
    confirm(position) {
      durable = position
      confirm()
    },
    stop: () => connection.destroy(),
  }
}
