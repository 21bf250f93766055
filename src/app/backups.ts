import type pg from 'pg'
import type { Config } from '../config/config.ts'
import { reasonOf } from '../core/errors.ts'
import { SYSTEM } from '../core/identity.ts'
import { currentArchive } from '../db/backup/archive/slot.ts'
import { BlobCopies, type BlobRow } from '../db/backup/stored/files.ts'
import { type Origin, originOf } from '../db/backup/stored/origin.ts'
import { takeBackup } from '../db/backup/take-backup.ts'
import { verifyBackup } from '../db/backup/verify.ts'
import { openConnection } from '../db/protocol/driver.ts'
import { sql } from '../db/sql.ts'
import { createBackups } from '../features/backups/routes.ts'
import type { Jobs } from '../features/jobs/routes.ts'
import { timesOf } from '../features/jobs/scheduler.ts'
import type { Store } from '../features/storage/blobs/store.ts'
import { ContinuousArchive } from './archive.ts'
import { addedExtensionsOf, blobSourceOf, openBackupTarget, requireSafeTarget, sealsOf } from './backup-settings.ts'
import type { IdentityGroup } from './identity.ts'
import type { Platform } from './platform.ts'

const DAY = 86_400
const HOUR = 3600

/** Backups by the server: routes, jobs and schedules. */
export async function createBackupGroup(
  config: Config,
  platform: Platform,
  { rootSecret }: IdentityGroup,
  { jobs, store }: { jobs: Jobs; store: Store },
) {
  const { db, observe, metrics, isDrill, directUrl } = platform
  const { to, schedule, verify, keep } = config.backup
  const isOn = to !== '' && !isDrill
  if (isOn) requireSafeTarget(config, to)
  const target = isOn ? openBackupTarget(config, to) : undefined
  const seals = sealsOf(config, rootSecret)
  const origin = target && (await originAt(directUrl()))
  const backups = createBackups({
    db,
    backups: target &&
      origin && {
        db,
        observe,
        metrics,
        target,
        seals,
        origin,
        keep,
        take: async ({ copiesRemoteFiles, ...more }) =>
          takeBackup({
            url: directUrl(),
            target,
            seals,
            blobs: blobSourceOf(config, store),
            copiesRemoteFiles,
            rootSecret,
            archive: await archiveOf(directUrl()),
            extensionsDir: addedExtensionsOf(config),
            ...more,
          }),
        verify: (backup, { signal, log }) =>
          verifyBackup({
            target,
            seals,
            backup,
            scratchIn: config.data_dir,
            binDir: config.database.embedded_bin_dir,
            signal,
            say: log,
          }),
      },
    refusal: isDrill ? 'this server is a drill: it takes no backups' : 'no backup target: set backup.to',
    schedules: { backup: schedule, verify },
    queueJobs: jobs.queueEach,
    wakeJobs: jobs.wake,
    keepSchedule: jobs.keepSchedule,
  })
  const archive =
    target && origin && config.backup.continuous !== ''
      ? new ContinuousArchive({
          config,
          platform,
          target,
          seals,
          blobs: blobSourceOf(config, store),
          copies: await BlobCopies.ofServer(target, seals, origin.server),
          queueBackup: async () => {
            await db.run(
              SYSTEM,
              jobs.queueEach('backup', sql`select gen_random_uuid() as id, '{}'::jsonb as payload`, 3),
            )
            jobs.wake()
          },
        })
      : undefined
  await archive?.check()
  return {
    warnings: () => [...backups.warnings(), ...(archive?.warnings() ?? [])],
    verifiedAt: () => backups.verifiedAt(),
    mirror: (blob: BlobRow) => archive?.mirror(blob),
    features: [...(archive ? [archive] : []), backups],
  }
}

/**
 * How long the bytes of removed files are kept while backups are on: the time between two of them, so that a backup that has
 * the row of a file finds its bytes.
 */
export function keptBlobSeconds({ backup }: Config, isDrill: boolean): number {
  if (backup.to === '' || isDrill) return 0
  if (backup.schedule === '') return DAY
  try {
    const times = timesOf(backup.schedule, 'UTC')
    const first = times.next(new Date())
    const second = first && times.next(first)
    return second ? Math.max(HOUR, (second.getTime() - first.getTime()) / 1000) : DAY
  } catch (error) {
    throw new Error(`invalid value for backup.schedule: ${reasonOf(error)}`)
  }
}

/** The archive that goes on from a backup which is taken now. */
export const archiveOf = (url: string): Promise<string | null> => asked(url, currentArchive)

export const originAt = (url: string): Promise<Origin> => asked(url, originOf)

async function asked<T>(url: string, ask: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await openConnection({ url })
  try {
    return await ask(client)
  } finally {
    await client.end().catch(() => {})
  }
}
