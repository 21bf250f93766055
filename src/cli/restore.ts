import { readFileSync } from 'node:fs'
import { openBackupTarget, sealsOf } from '../app/backup-settings.ts'
import type { Config } from '../config/config.ts'
import { parseRestoreTime, pointAt, pointBefore, type RestorePoint } from '../db/backup/restore/point.ts'
import { type RestoreResult, restoreBackup } from '../db/backup/restore/restore.ts'
import { chooseBackup } from '../db/backup/stored/choose.ts'
import type { Seals } from '../db/backup/stored/seal.ts'
import type { BackupTarget } from '../db/backup/target/target.ts'
import { readRestored, requireWholeRestore, writeRestored } from '../db/setup/embedded/restored.ts'
import { backupTargetOf, megabytes } from './backup.ts'
import { type Context, UsageError } from './command/command.ts'

/** Restores a backup into an empty data directory. */
export async function restore(context: Context): Promise<number> {
  const { config } = context.config()
  const [id] = context.args
  if (context.flag('at') !== undefined && context.flag('before') !== undefined) {
    throw new UsageError('--at and --before exclude each other')
  }
  const target = openBackupTarget(config, backupTargetOf(context, config, 'from'))
  const rootSecret = givenSecret(context, config)
  try {
    const seals = sealsOf(config, rootSecret)
    const { backup, recovery } = await pointOf(context, target, seals, id)
    const result = await restoreBackup({
      target,
      seals,
      backup,
      recovery,
      dataDir: config.data_dir,
      binDir: config.database.embedded_bin_dir,
      rootSecret,
      keepCredentials: context.flag('keep-credentials') === true,
      takeOver: context.flag('take-over') === true,
      say: context.json ? () => {} : context.print,
    })
    context.print(context.json ? JSON.stringify(result) : describe(result, config))
    return 0
  } finally {
    target.close()
  }
}

/** The newest good backup and its archive to the end, to a moment, or to just before a request. */
async function pointOf(
  context: Context,
  target: BackupTarget,
  seals: Seals,
  id: string | undefined,
): Promise<RestorePoint> {
  const [at, before] = [context.flag('at'), context.flag('before')]
  if (typeof at === 'string') {
    const moment = parseRestoreTime(at)
    if (!moment) throw new UsageError(`not a time: ${at} (expected one such as "2026-11-16 12:00:00+00")`)
    return pointAt(target, seals, moment, id)
  }
  if (typeof before === 'string') return pointBefore(target, seals, before, id)
  return { backup: await chooseBackup(target, seals, { id }), recovery: { kind: 'end' } }
}

function describe({ backup, reached, files, ended, drill }: RestoreResult, { data_dir: dataDir }: Config): string {
  const until = reached.at === null ? '' : `, last transaction at ${reached.at}`
  return [
    `restored backup ${backup} into ${dataDir}: up to ${reached.lsn ?? 'its end'}${until}`,
    ...(files.count > 0 ? [`${files.count} files (${megabytes(files.bytes)}) in ${dataDir}/storage`] : []),
    ...(files.missing > 0 ? [`${files.missing} files are not in the backup target`] : []),
    ...(reached.isBeyond ? ['the log ends before that moment: this is its end'] : []),
    ...(ended ? [`${ended.sessions} sessions, and all grants and tokens, ended`] : []),
    ...(ended && !ended.isKnown ? ['what was revoked later is not known without an archive'] : []),
    ...(ended?.keys.map(({ id, name }) => `API key ${id} (${name}) was revoked later and is off`) ?? []),
    ...(drill
      ? [
          'It is a drill: a server on it sends nothing, removes no file and takes no backup.',
          `To make it the server: svc restore take-over --data-dir ${dataDir}`,
        ]
      : []),
  ].join('\n')
}

/** From now on a restored server works as any other. */
export async function takeOver(context: Context): Promise<number> {
  const { config } = context.config()
  requireWholeRestore(config.data_dir)
  const restored = readRestored(config.data_dir)
  if (!restored) throw new Error(`${config.data_dir} was not made by svc restore`)
  writeRestored(config.data_dir, { ...restored, drill: false })
  const text = restored.drill
    ? `${config.data_dir} is no drill any more; restart its server`
    : `${config.data_dir} was taken over before`
  context.print(context.json ? JSON.stringify({ drill: false }) : text)
  return 0
}

/** Of a file, or as configured. */
function givenSecret(context: Context, config: Config): string | undefined {
  const file = context.flag('root-secret')
  if (typeof file !== 'string') return config.auth.jwt_secret || undefined
  try {
    return readFileSync(file, 'utf8').trim() || undefined
  } catch (error) {
    throw new Error(`cannot read ${file}: ${(error as NodeJS.ErrnoException).code}`)
  }
}
