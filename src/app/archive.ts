import { existsSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Config } from '../config/config.ts'
import { sleep } from '../core/clock.ts'
import { reasonOf, unavailable } from '../core/errors.ts'
import { SYSTEM } from '../core/identity.ts'
import { auditStatement } from '../db/audit.ts'
import { type ArchiveEvent, Archiver } from '../db/backup/archive/archiver.ts'
import { boundSlots, requireReplication, slotWarnings } from '../db/backup/archive/slot.ts'
import { requireNoOtherStandby } from '../db/backup/archive/standby.ts'
import { type BlobCopies, type BlobRow, type BlobSource, copyAllBlobs, recentBlobs } from '../db/backup/stored/files.ts'
import type { Seals } from '../db/backup/stored/seal.ts'
import { isS3Url } from '../db/backup/target/open-target.ts'
import type { BackupTarget } from '../db/backup/target/target.ts'
import { Loop } from '../db/loop.ts'
import { openConnection } from '../db/protocol/driver.ts'
import { sql } from '../db/sql.ts'
import type { Feature } from '../http/feature.ts'
import type { Platform } from './platform.ts'

/** A start waits for the archive to catch up, because writes are not safe before. */
const START_MS = 30_000
const LOOK_FOR_BLOBS_MS = 3_000
const DISK_FLUSH_MS = 1_000
const S3_FLUSH_MS = 5_000

type Deps = {
  config: Config
  platform: Platform
  target: BackupTarget
  seals: Seals
  blobs: BlobSource
  copies: BlobCopies
  /** An archive without a base backup brings nothing back. */
  queueBackup(): Promise<void>
}

/** The continuous archive of `backup.continuous`: the log, and the bytes of uploads. */
export class ContinuousArchive implements Feature {
  readonly #deps: Deps
  readonly #archiver: Archiver
  readonly #isSync: boolean
  readonly #timeoutMs: number
  #blobLoop: Loop | undefined
  #hasAllBlobs = false
  #since = new Date(0)
  #warnings: string[] = []
  /** Blobs that this process has copied, so that they are not copied again. */
  readonly #copied = new Set<string>()

  constructor(deps: Deps) {
    this.#deps = deps
    const { config, platform, target, seals } = deps
    const { backup } = config
    this.#isSync = backup.continuous === 'sync'
    this.#timeoutMs = backup.sync_timeout * 1000
    this.#archiver = new Archiver({
      url: () => platform.directUrl(),
      target,
      seals,
      isSync: this.#isSync,
      timeoutMs: this.#timeoutMs,
      isStrict: backup.sync_strict,
      // On Windows there is no socket, and no folder of it.
      embeddedDir:
        config.database.url === '' && process.platform !== 'win32' ? join(config.data_dir, 'postgres') : undefined,
      flushMs: isS3Url(backup.to) ? S3_FLUSH_MS : DISK_FLUSH_MS,
      onEvent: (event) => this.#onEvent(event),
    })
    const { metrics } = platform
    const state = () => this.#archiver.state()
    metrics.gauge('svc_archive_lag_bytes', 'Log that is not in the archive yet.', [], () => state().lagBytes, 'max')
    metrics.gauge(
      'svc_archive_lag_seconds',
      'Age of the oldest log that is not in the archive yet.',
      [],
      () => state().lagSeconds,
      'max',
    )
    const isSynchronous = (): number => Number(state().mode === 'sync')
    metrics.gauge('svc_archive_synchronous', '1 while writes wait for the archive.', [], isSynchronous, 'max')
    this.#degraded = metrics.counter(
      'svc_archive_degraded_total',
      'How often writes stopped waiting for the archive.',
      [],
    )
  }

  readonly #degraded: { add(labels: readonly string[]): void }

  /** Refuses what cannot be, in one sentence, before anything is started. */
  async check(): Promise<void> {
    const { config, platform } = this.#deps
    if (this.#isSync) requireOtherFileSystem(config)
    const client = await openConnection({ url: platform.directUrl() })
    try {
      await requireReplication(client)
      if (this.#isSync) await requireNoOtherStandby(client)
      if (config.database.url === '') await boundSlots(client)
      this.#warnings = await slotWarnings(client)
    } finally {
      await client.end().catch(() => {})
    }
  }

  async start(): Promise<void> {
    const { config, platform } = this.#deps
    if (this.#isSync && isS3Url(config.backup.to)) await this.#measure()
    this.#archiver.start()
    if (this.#isSync) await this.#archiver.settled(Math.max(this.#timeoutMs, START_MS))
    this.#blobLoop = new Loop({
      step: () => this.#copyBlobs(),
      everyMs: LOOK_FOR_BLOBS_MS,
      onFailure: (error) =>
        platform.observe({ message: 'archive: files not copied', attrs: { error: reasonOf(error) } }),
    })
  }

  async stop(): Promise<void> {
    await this.#blobLoop?.stop()
    await this.#archiver.stop()
  }

  /** Before the row of an upload commits: in `sync` its bytes are in the target by then. */
  async mirror(blob: BlobRow): Promise<void> {
    if (!this.#isSync || this.#deps.blobs.isRemote) return
    const { mode } = this.#archiver.state()
    const { sync_strict: isStrict } = this.#deps.config.backup
    if (mode === 'degraded') return
    const late = Symbol('late')
    const copied = this.#deps.copies.copy(blob, this.#deps.blobs).catch((error: unknown) => error)
    const outcome = await Promise.race([copied, sleep(this.#timeoutMs).then(() => late)])
    if (outcome === true) this.#remember(blob.id)
    else if (isStrict) throw unavailable('the backup target does not answer')
  }

  warnings(): readonly string[] {
    const { mode, error, isMine } = this.#archiver.state()
    return [
      ...this.#warnings,
      ...(this.#isSync && isMine && mode === 'async'
        ? ['the archive has not caught up yet, and writes do not wait for it']
        : []),
      ...(mode === 'degraded'
        ? [`the archive is behind, and writes do not wait for it: ${error ?? 'the target does not answer'}`]
        : []),
      ...(mode === 'down'
        ? [`writes are refused until the archive is back: ${error ?? 'the target does not answer'}`]
        : []),
      ...(error !== null && (mode === 'async' || !isMine) ? [`the archive does not go on: ${error}`] : []),
    ]
  }

  #onEvent(event: ArchiveEvent): void {
    const { observe } = this.#deps.platform
    switch (event.kind) {
      case 'begun':
        observe({ message: 'archive: begun', attrs: { archive: event.archive } })
        if (!event.isNew) return
        this.#deps.queueBackup().catch((error: unknown) => {
          observe({ message: 'archive: no base backup was queued', attrs: { error: reasonOf(error) } })
        })
        return
      case 'failed':
        observe({ message: 'archive: failed, will retry', attrs: { error: event.error } })
        return
      case 'degraded':
        this.#degraded.add([])
        observe({ message: 'archive: writes do not wait for it', attrs: { error: event.error } })
        this.#note('archive.degraded', { error: event.error })
        return
      case 'restored':
        observe({ message: 'archive: caught up' })
        this.#note('archive.restored')
    }
  }

  /** Does not wait for the archive it is about. */
  #note(action: string, newValues?: unknown): void {
    const { db, observe } = this.#deps.platform
    const entry = auditStatement({
      who: SYSTEM,
      action,
      target: this.#archiver.state().archive ?? '',
      ip: '',
      newValues,
    })
    db.run(SYSTEM, [sql`select set_config('synchronous_commit', 'local', true)`, entry]).catch((error: unknown) => {
      observe({ message: 'audit entry lost', attrs: { action, error: reasonOf(error) } })
    })
  }

  /** `sync` to S3 is one object for each group of commits. */
  async #measure(): Promise<void> {
    const { target, seals, platform } = this.#deps
    const name = 'archives/latency'
    const begun = performance.now()
    await target.put(name, seals.seal(name, [Buffer.from('latency')]))
    platform.observe({
      message: 'archive: latency of the target',
      attrs: { ms: Math.round(performance.now() - begun) },
    })
  }

  /** What this process, another one or one that was killed has stored and not copied. */
  async #copyBlobs(): Promise<undefined> {
    const { platform, blobs } = this.#deps
    if (!this.#archiver.state().isMine || blobs.isRemote) return
    const client = await openConnection({ url: platform.directUrl(), applicationName: 'svc archive files' })
    try {
      const now = new Date()
      if (!this.#hasAllBlobs) {
        await copyAllBlobs({ client, copies: this.#deps.copies, source: blobs, onBlob: () => {} })
        this.#hasAllBlobs = true
      } else {
        for (const blob of await recentBlobs(client, this.#since)) {
          if (this.#copied.has(blob.id)) continue
          if (await this.#deps.copies.copy(blob, blobs)) this.#remember(blob.id)
        }
      }
      this.#since = now
    } finally {
      await client.end().catch(() => {})
    }
  }

  #remember(id: string): void {
    if (this.#copied.size > 100_000) this.#copied.clear()
    this.#copied.add(id)
  }
}

/** What survives the loss of a disk cannot lie on it. */
function requireOtherFileSystem({ backup, data_dir: dataDir }: Config): void {
  if (isS3Url(backup.to)) return
  const deviceOf = (path: string): number => (existsSync(path) ? statSync(path).dev : deviceOf(dirname(path)))
  if (deviceOf(backup.to) !== deviceOf(dataDir)) return
  throw new Error(
    `backup.continuous = "sync" needs a target on another file system than data_dir: ${backup.to} is lost together with ${dataDir}`,
  )
}
