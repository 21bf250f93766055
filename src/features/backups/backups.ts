import { AppError, notFound, reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { JobHandler, JobRun } from '../../core/job.ts'
import type { Metrics } from '../../core/metrics.ts'
import type { Observe } from '../../core/observe.ts'
import { auditStatement } from '../../db/audit.ts'
import { tarOfBackup } from '../../db/backup/download.ts'
import { type Pruned, pruneBackups, removeBackup } from '../../db/backup/prune.ts'
import { isBackupUnderWay } from '../../db/backup/running.ts'
import { isOf, type Origin } from '../../db/backup/stored/origin.ts'
import { type BackupDetails, type BackupRecord, listBackups, shownBackup } from '../../db/backup/stored/records.ts'
import type { Seals } from '../../db/backup/stored/seal.ts'
import { type BackupProgress, BackupRefused } from '../../db/backup/take-backup.ts'
import type { BackupTarget } from '../../db/backup/target/target.ts'
import type { BackupVerdict } from '../../db/backup/verify.ts'
import type { Db } from '../../db/db.ts'
import { Loop } from '../../db/loop.ts'
import { GiveUp } from '../../db/queue/queue.ts'

/** As long as a day: a large database over a slow line. */
const LONGEST_MS = 86_400_000
const LOOK_EVERY_MS = 300_000

const LOGICAL =
  'backups are logical copies, because the role of database.url may not replicate: nothing between two of them can be restored'

const sealedWarning = (count: number, url: string): string =>
  `${count === 1 ? '1 backup' : `${count} backups`} in ${url} ${count === 1 ? 'is' : 'are'} sealed with another key: ` +
  'they stay until somebody deletes them'

export type TakeOptions = {
  copiesRemoteFiles: boolean
  signal: AbortSignal
  onBegin: (id: string) => void
  say: (line: string) => void
  onProgress: (progress: BackupProgress) => void
}

export type BackupsDeps = {
  db: Db
  observe: Observe
  metrics: Metrics
  target: BackupTarget
  seals: Seals
  origin: Origin
  keep: number
  take(options: TakeOptions): Promise<BackupDetails>
  verify(backup: BackupDetails, run: Pick<JobRun, 'signal' | 'log'>): Promise<BackupVerdict>
}

/** The backups of the configured target. */
export class Backups {
  readonly #deps: BackupsDeps
  readonly #runs: { add(labels: readonly string[]): void }
  #known: readonly BackupDetails[] = []
  #isRunning = false
  #looking: Loop | undefined

  constructor(deps: BackupsDeps) {
    this.#deps = deps
    const { metrics } = deps
    this.#runs = metrics.counter('svc_backup_runs_total', 'Backups that were tried, by result.', ['result'])
    const newest = (pick: (one: BackupDetails) => string | null | undefined) => (): number =>
      Math.max(0, ...this.#good.map((one) => Date.parse(pick(one) ?? '') / 1000 || 0))
    const last = (name: string, help: string, read: () => number): void => metrics.gauge(name, help, [], read, 'max')
    last(
      'svc_backup_last_good_seconds',
      'When the newest good backup ended.',
      newest((one) => one.finished_at),
    )
    last(
      'svc_backup_last_verified_seconds',
      'When a backup was last found good by restoring it.',
      newest((one) => (one.verification === 'good' ? one.verified_at : null)),
    )
    last('svc_backup_count', 'Good backups in the target.', () => this.#good.length)
    last('svc_backup_bytes', 'Size of the newest good backup.', () => this.#good.at(-1)?.bytes ?? 0)
    last('svc_backup_running', '1 while a backup is under way in this process.', () => Number(this.#isRunning))
  }

  start(): void {
    const { observe } = this.#deps
    this.#looking = new Loop({
      step: async () => void (await this.list()),
      everyMs: LOOK_EVERY_MS,
      onFailure: (error) => observe({ message: 'backups not listed', attrs: { error: reasonOf(error) } }),
    })
  }

  async stop(): Promise<void> {
    await this.#looking?.stop()
    this.#deps.target.close()
  }

  /** Newest first. */
  async list(): Promise<BackupRecord[]> {
    this.#known = await listBackups(this.#deps.target, this.#deps.seals)
    return this.#known.map(shownBackup).reverse()
  }

  /** Looked up in the list: an id never becomes a path. */
  async find(id: string): Promise<BackupDetails> {
    const found = (await listBackups(this.#deps.target, this.#deps.seals)).find((one) => one.id === id)
    if (!found) throw notFound('backup not found', 'backup_not_found')
    return found
  }

  async findGood(id: string): Promise<BackupDetails> {
    const found = await this.find(id)
    if (found.state !== 'good') throw new AppError('wrong_state', 'backup is not good')
    return found
  }

  /** By its lock, which ends with it: one that was killed is listed as running for a while. */
  async isUnderWay(): Promise<boolean> {
    return (await this.#deps.db.run(SYSTEM, isBackupUnderWay)) > 0
  }

  tar(backup: BackupDetails): AsyncIterable<Buffer> {
    return tarOfBackup(this.#deps.target, this.#deps.seals, backup)
  }

  async remove(backup: BackupDetails): Promise<void> {
    if (backup.state === 'running') throw new AppError('wrong_state', 'backup is running')
    await removeBackup(this.#deps.target, backup.id)
    this.#looking?.poke()
  }

  prune(): Promise<Pruned> {
    return pruneBackups(this.#deps)
  }

  get server(): string {
    return this.#deps.origin.server
  }

  /** When one was last found good by restoring it, of those that were last looked at. */
  verifiedAt(): string | null {
    const found = this.#own.filter(({ verification }) => verification === 'good')
    return (
      found
        .map((one) => one.verified_at ?? '')
        .sort()
        .at(-1) ?? null
    )
  }

  warnings(): string[] {
    const { seals, target } = this.#deps
    const last = this.#own.at(-1)
    const sealed = this.#known.filter(({ state }) => state === 'sealed').length
    const verified = this.#good.findLast(({ verification }) => verification !== undefined)
    return [
      ...(seals.isEncrypted
        ? []
        : [`backups in ${target.url} are not encrypted: set backup.passphrase or backup.key_file`]),
      ...(this.#good.at(-1)?.kind === 'logical' ? [LOGICAL] : []),
      ...(last?.state === 'failed' ? [`the last backup failed: ${last.error ?? 'interrupted'}`] : []),
      ...(sealed > 0 ? [sealedWarning(sealed, target.url)] : []),
      ...(verified?.verification === 'failed' ? [`backup ${verified.id} does not hold: its verification failed`] : []),
    ]
  }

  get handlers(): Record<string, JobHandler> {
    const longest = (handler: (run: JobRun) => Promise<void>): JobHandler =>
      Object.assign(handler, { longestMs: LONGEST_MS })
    return {
      backup: longest((run) => this.#backup(run)),
      backup_verify: longest((run) => this.#verify(run)),
    }
  }

  get #own(): BackupDetails[] {
    return this.#known.filter((one) => isOf(one, this.#deps.origin))
  }

  get #good(): BackupDetails[] {
    return this.#own.filter(({ state }) => state === 'good')
  }

  async #backup({ payload, signal, log, progress }: JobRun): Promise<void> {
    const { db, take, observe } = this.#deps
    this.#isRunning = true
    try {
      const taken = await take({
        copiesRemoteFiles: payload['files'] === true,
        signal,
        onBegin: (id) => log(`backup ${id}`),
        say: log,
        onProgress: ({ bytes, expected, part }) => {
          if (part === 'database' && expected > 0) progress(Math.min(0.95, (0.95 * bytes) / expected))
        },
      })
      this.#runs.add(['good'])
      progress(1)
      log(`good: ${taken.bytes} bytes, ${taken.files.count} files`)
      // Who asked for one is in the trail already.
      if (payload['asked'] !== true) {
        await db.run(SYSTEM, auditStatement({ who: SYSTEM, action: 'backup.create', target: taken.id, ip: '' }))
      }
      const { backups, files } = await this.prune()
      if (backups.length + files > 0) log(`removed ${backups.length} old backups and ${files} files`)
    } catch (error) {
      if (signal.aborted) throw error
      this.#runs.add(['failed'])
      observe({ message: 'backup failed', attrs: { error: reasonOf(error) } })
      throw error instanceof BackupRefused ? new GiveUp(error.message) : error
    } finally {
      this.#isRunning = false
      this.#looking?.poke()
    }
  }

  /** Of the payload's id, else the newest good one. */
  async #verify({ payload, signal, log }: JobRun): Promise<void> {
    const { db, verify, observe } = this.#deps
    const id = payload['id']
    await this.list()
    const backup = typeof id === 'string' ? await this.findGood(id).catch(giveUp) : this.#good.at(-1)
    if (!backup) throw new GiveUp('there is no good backup')
    const verdict = await verify(backup, { signal, log })
    this.#looking?.poke()
    log(`${backup.id}: ${verdict.verification}`)
    if (payload['asked'] !== true) {
      const newValues = { verification: verdict.verification }
      await db.run(
        SYSTEM,
        auditStatement({ who: SYSTEM, action: 'backup.verify', target: backup.id, ip: '', newValues }),
      )
    }
    if (verdict.verification !== 'failed') return
    const error = verdict.verification_error ?? ''
    observe({ message: 'backup does not hold', attrs: { id: backup.id, error } })
    throw new GiveUp(`verification failed: ${error}`)
  }
}

const giveUp = (error: unknown): never => {
  throw new GiveUp(reasonOf(error))
}
