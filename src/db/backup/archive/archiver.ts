import type pg from 'pg'
import { sleep } from '../../../core/clock.ts'
import { reasonOf } from '../../../core/errors.ts'
import { openConnection } from '../../protocol/driver.ts'
import type { Seals } from '../stored/seal.ts'
import { formatLsn, parseLsn } from '../stored/wal.ts'
import type { BackupTarget } from '../target/target.ts'
import { ArchiveIndex } from './index-writer.ts'
import { ARCHIVE_LOCK, type OpenSlot, openSlot, SLOT } from './slot.ts'
import { endWaiters, setSynchronous } from './standby.ts'
import { openWalStream, type WalStream } from './wal-stream.ts'
import { WalWriter } from './wal-writer.ts'

export type ArchiveState = {
  /** This process writes the archive. */
  isMine: boolean
  mode: 'off' | 'async' | 'sync' | 'degraded' | 'down'
  archive: string | null
  durable: string | null
  lagBytes: number
  lagSeconds: number
  error: string | null
}

export type ArchiverOptions = {
  /** Of the primary, as it is known now. */
  url: () => string
  target: BackupTarget
  seals: Seals
  isSync: boolean
  /** How long writes wait for the target. */
  timeoutMs: number
  isStrict: boolean
  /** The cluster of the embedded PostgreSQL. */
  embeddedDir?: string | undefined
  /** How far the target may be behind. */
  flushMs: number
  onEvent(event: ArchiveEvent): void
}

export type ArchiveEvent =
  | { kind: 'begun'; archive: string; isNew: boolean }
  | { kind: 'failed'; error: string }
  | { kind: 'degraded'; error: string }
  | { kind: 'restored' }

const MOST_PENDING = 16 * 2 ** 20
const LOOK_MS = 250
const CONFIRM_MS = 5_000
const LEASE_EVERY_MS = 2_000
const FIRST_RETRY_MS = 200
const LAST_RETRY_MS = 5_000
/** A target that was away keeps up for so long before writes wait for it again; longer each time it is away again soon. */
const FIRST_STEADY_MS = 1_000
const LAST_STEADY_MS = 60_000

/**
 * Receives the log over the slot and writes it to the target: the first process that has the lock does, the others wait
 * for it. In `sync` it is PostgreSQL's synchronous standby, so a commit waits until its log is durable in the target.
 */
export class Archiver {
  readonly #options: ArchiverOptions
  #isStopped = false
  #ended: Promise<void> = Promise.resolve()
  #run: Run | undefined
  #error: string | null = null
  #wake: () => void = () => {}

  constructor(options: ArchiverOptions) {
    this.#options = options
  }

  start(): void {
    this.#ended = this.#loop()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#wake()
    this.#run?.stop()
    await this.#ended
  }

  state(): ArchiveState {
    const none = { archive: null, durable: null, lagBytes: 0, lagSeconds: 0 }
    return {
      isMine: this.#run !== undefined,
      mode: 'off',
      ...none,
      ...this.#run?.state(),
      error: this.#run?.error ?? this.#error,
    }
  }

  /** Resolves once the archive of this process has caught up and writes wait for it, or another process has it. */
  async settled(timeoutMs: number): Promise<void> {
    const deadline = Date.now() + timeoutMs
    while (Date.now() < deadline && !this.#isStopped) {
      if (this.#run?.hasCaughtUp || this.#isElsewhere) return
      await sleep(20)
    }
  }

  #isElsewhere = false

  async #loop(): Promise<void> {
    let failures = 0
    while (!this.#isStopped) {
      try {
        await this.#hold(() => {
          failures = 0
        })
        this.#error = null
      } catch (error) {
        this.#error = reasonOf(error)
        if (failures++ === 0 && !this.#isStopped) this.#options.onEvent({ kind: 'failed', error: this.#error })
      }
      if (this.#isStopped) return
      const pause = failures === 0 ? LEASE_EVERY_MS : Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** (failures - 1))
      await Promise.race([
        sleep(pause),
        new Promise<void>((resolve) => {
          this.#wake = resolve
        }),
      ])
    }
  }

  /** Runs the archive while this process has the lock. */
  async #hold(onBegun: () => void): Promise<void> {
    const client = await openConnection({ url: this.#options.url(), applicationName: 'svc archive lease' })
    try {
      const { rows } = await client.query<{ locked: string }>(`select pg_try_advisory_lock(${ARCHIVE_LOCK}) as locked`)
      this.#isElsewhere = rows[0]?.locked !== 't'
      if (this.#isElsewhere) return
      // What this connection writes is about the archive and never waits for it.
      await client.query('set synchronous_commit = local')
      const slot = await openSlot(client, this.#options.target, this.#options.seals)
      this.#options.onEvent({ kind: 'begun', archive: slot.record.archive, isNew: slot.isNew })
      this.#run = new Run(this.#options, client, slot)
      if (this.#isStopped) return
      await this.#run.stream(onBegun)
    } finally {
      await this.#run?.close()
      this.#run = undefined
      await client.end().catch(() => {})
    }
  }
}

/** One stream from its beginning to its failure. */
class Run {
  readonly #options: ArchiverOptions
  readonly #client: pg.Client
  readonly #slot: OpenSlot
  readonly #writer: WalWriter
  readonly #index: ArchiveIndex
  #stream: WalStream | undefined
  #pending: Buffer[] = []
  #pendingBytes = 0
  /** When the oldest byte that is not durable arrived. */
  #pendingSince = 0
  #serverEnd = 0n
  /** Up to where the log has arrived. */
  #received: bigint
  #flushing: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #watch: NodeJS.Timeout | undefined
  #confirmed = 0
  #isSynchronous = false
  #isDegraded = false
  #isDown = false
  #isStopped = false
  #isWatching = false
  /** Since when the target keeps up. */
  #steadySince: number | undefined
  #steadyMs = FIRST_STEADY_MS
  #restoredAt = 0
  error: string | null = null
  hasCaughtUp = false

  constructor(options: ArchiverOptions, client: pg.Client, slot: OpenSlot) {
    this.#options = options
    this.#client = client
    this.#slot = slot
    this.#received = parseLsn(slot.from)
    const { archive, segment_size: segmentSize } = slot.record
    const { target, seals } = options
    this.#writer = new WalWriter({ target, seals, archive, segmentSize, from: parseLsn(slot.from) })
    this.#index = new ArchiveIndex({ target, seals, archive, start: slot.record.start, url: options.url() })
  }

  state(): Omit<ArchiveState, 'isMine' | 'error'> {
    const { isSync } = this.#options
    const behind = this.#serverEnd - this.#writer.position
    return {
      mode: this.#isDown ? 'down' : this.#isDegraded ? 'degraded' : isSync && this.#isSynchronous ? 'sync' : 'async',
      archive: this.#slot.record.archive,
      durable: formatLsn(this.#writer.position),
      lagBytes: behind > 0n ? Number(behind) : 0,
      lagSeconds: this.#pendingBytes > 0 ? (Date.now() - this.#pendingSince) / 1000 : 0,
    }
  }

  stop(): void {
    this.#isStopped = true
    this.#stream?.stop()
  }

  async stream(onBegun: () => void): Promise<void> {
    const url = this.#options.url()
    const { record, from } = this.#slot
    this.#stream = await openWalStream({ url, applicationName: SLOT, slot: SLOT, from, timeline: record.timeline })
    // It may have been stopped while the stream was opened.
    if (this.#isStopped) return
    this.#watch = setInterval(() => void this.#look(), LOOK_MS)
    this.#index.start()
    try {
      for await (const { at, bytes, serverEnd } of this.#stream.bytes()) {
        onBegun()
        if (serverEnd > this.#serverEnd) this.#serverEnd = serverEnd
        if (bytes.length > 0) this.#take(at, bytes)
        this.#flushSoon()
        while (this.#pendingBytes > MOST_PENDING && !this.#isStopped) await (this.#flushing ?? sleep(LOOK_MS))
      }
    } catch (error) {
      if (!this.#isStopped) throw error
    }
  }

  /** In a stop of the server everything that has arrived is written before writes stop waiting for it. */
  async close(): Promise<void> {
    clearInterval(this.#watch)
    clearTimeout(this.#timer)
    this.#stream?.stop()
    await this.#flushing
    if (this.#pendingBytes > 0) await this.#writePending().catch(() => {})
    await this.#index.stop()
    await this.#writer.close().catch(() => {})
    // Without an archive nothing would ever answer those who wait for it. One that failed comes back and goes on.
    if (this.#isStopped && this.#isSynchronous) await setSynchronous(this.#client, false).catch(() => {})
  }

  #take(at: bigint, bytes: Buffer): void {
    if (at !== this.#received) {
      throw new Error(`the log goes on at ${formatLsn(at)} instead of ${formatLsn(this.#received)}`)
    }
    this.#received += BigInt(bytes.length)
    if (this.#pendingBytes === 0 && !this.#flushing) this.#pendingSince = Date.now()
    this.#pending.push(bytes)
    this.#pendingBytes += bytes.length
  }

  #inFlight = 0

  #flushSoon(): void {
    if (this.#flushing || this.#pendingBytes === 0) return
    if (this.#options.isSync || this.#pendingBytes > MOST_PENDING / 4) this.#flush()
    else this.#timer ??= setTimeout(() => this.#flush(), this.#options.flushMs)
  }

  #flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#flushing || this.#pendingBytes === 0) return
    this.#flushing = this.#writePending().then(
      () => {
        this.error = null
        this.#flushing = undefined
        this.#flushSoon()
      },
      async (error: unknown) => {
        this.error = reasonOf(error)
        await sleep(FIRST_RETRY_MS)
        this.#flushing = undefined
        if (!this.#isStopped) this.#flushSoon()
      },
    )
  }

  /** Bytes that could not be written stay in front of those that have arrived since. */
  async #writePending(): Promise<void> {
    const bytes = this.#pending.length === 1 ? (this.#pending[0] as Buffer) : Buffer.concat(this.#pending)
    this.#pending = []
    this.#pendingBytes = 0
    this.#inFlight = bytes.length
    const before = this.#writer.position
    try {
      await this.#writer.write(bytes)
    } catch (error) {
      const written = Number(this.#writer.position - before)
      this.#pending.unshift(bytes.subarray(written))
      this.#pendingBytes += bytes.length - written
      throw error
    } finally {
      this.#inFlight = 0
    }
    this.#pendingSince = Date.now()
    this.#confirm()
  }

  #confirm(): void {
    this.#confirmed = Date.now()
    this.#stream?.confirm(this.#writer.position)
  }

  /** Four times a second: has it caught up, and does it still keep up? */
  async #look(): Promise<void> {
    if (this.#isWatching || this.#isStopped) return
    this.#isWatching = true
    try {
      if (Date.now() - this.#confirmed > CONFIRM_MS) this.#confirm()
      const isBehind = this.#pendingBytes > 0 || this.#inFlight > 0
      const waited = isBehind ? Date.now() - this.#pendingSince : 0
      if (waited > this.#options.timeoutMs && this.#isSynchronous) await this.#giveWay()
      else if (this.#isSteady(waited)) await this.#catchUp()
    } catch (error) {
      this.error = reasonOf(error)
    } finally {
      this.#isWatching = false
    }
  }

  /** A target that comes and goes would otherwise hold up writes for the whole timeout each time. */
  #isSteady(waited: number): boolean {
    if (this.error !== null || waited >= this.#options.timeoutMs / 2) {
      this.#steadySince = undefined
      return false
    }
    this.#steadySince ??= Date.now()
    const wasAway = this.#isDegraded || this.#isDown
    return !wasAway || Date.now() - this.#steadySince >= this.#steadyMs
  }

  /** Every time it is away, and not for every time that this is seen. */
  #beAway(): void {
    this.#steadySince = undefined
    const isSoon = Date.now() - this.#restoredAt < LAST_STEADY_MS
    this.#steadyMs = isSoon ? Math.min(LAST_STEADY_MS, this.#steadyMs * 2) : FIRST_STEADY_MS
  }

  async #catchUp(): Promise<void> {
    const { isSync, onEvent } = this.#options
    const wasAway = this.#isDegraded || this.#isDown
    if (isSync && !this.#isSynchronous) {
      await setSynchronous(this.#client, true, this.#options.embeddedDir)
      this.#isSynchronous = true
    }
    this.hasCaughtUp = true
    this.#isDegraded = false
    this.#isDown = false
    if (!wasAway) return
    this.#restoredAt = Date.now()
    onEvent({ kind: 'restored' })
  }

  async #giveWay(): Promise<void> {
    const { isStrict, onEvent } = this.#options
    const error = this.error ?? 'the target does not answer'
    if (isStrict) {
      await endWaiters(this.#client)
      if (this.#isDown) return
      this.#isDown = true
      this.#beAway()
      onEvent({ kind: 'degraded', error })
      return
    }
    await setSynchronous(this.#client, false)
    this.#isSynchronous = false
    this.#isDegraded = true
    this.#beAway()
    onEvent({ kind: 'degraded', error })
  }
}
