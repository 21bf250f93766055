import { existsSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import {
  addedExtensionsOf,
  backupPassphrase,
  blobSourceOf,
  openBackupTarget,
  requireSafeTarget,
  sealsOf,
} from '../app/backup-settings.ts'
import { archiveOf, originAt } from '../app/backups.ts'
import type { Config } from '../config/config.ts'
import { SYSTEM } from '../core/identity.ts'
import { auditStatement } from '../db/audit.ts'
import { pruneBackups } from '../db/backup/prune.ts'
import { chooseBackup } from '../db/backup/stored/choose.ts'
import { type BackupDetails, listBackups, shownBackup } from '../db/backup/stored/records.ts'
import type { Seals } from '../db/backup/stored/seal.ts'
import { type BackupProgress, takeBackup } from '../db/backup/take-backup.ts'
import { isS3Url } from '../db/backup/target/open-target.ts'
import type { BackupTarget } from '../db/backup/target/target.ts'
import { verifyBackup } from '../db/backup/verify.ts'
import type { Db } from '../db/db.ts'
import { readRestored } from '../db/setup/embedded/restored.ts'
import { rootSecretFile } from '../db/setup/embedded/secret-file.ts'
import { loadRootSecret } from '../features/auth/keys.ts'
import { createStore } from '../features/storage/storage.ts'
import { type Context, UsageError } from './command/command.ts'
import { withDatabaseUrl, withDb } from './command/database.ts'
import { textTable } from './command/text-table.ts'

/** Takes a backup now, whether or not a server runs on the database. */
export async function backup(context: Context): Promise<number> {
  const { config } = context.config()
  const to = backupTargetOf(context, config)
  requireSafeTarget(config, to)
  requireNoDrill(config)
  const target = openBackupTarget(config, to)
  const store = createStore(config.storage)
  const progress = progressLine(context)
  try {
    const taken = await withDb(config, (db) =>
      withDatabaseUrl(config, async (url) => {
        const rootSecret = await rootSecretOf(config, db)
        const seals = sealsOf(config, rootSecret)
        const done = await takeBackup({
          url,
          target,
          seals,
          blobs: blobSourceOf(config, store),
          copiesRemoteFiles: context.flag('files') === true,
          rootSecret,
          archive: await archiveOf(url),
          extensionsDir: addedExtensionsOf(config),
          say: context.json ? () => {} : context.print,
          onProgress: progress.show,
        })
        await db.run(SYSTEM, auditStatement({ ...OPERATOR, action: 'backup.create', target: done.id }))
        return done
      }),
    )
    progress.end()
    if (context.json) context.print(JSON.stringify(shownBackup(taken)))
    else context.print(`backup ${taken.id} is good: ${megabytes(taken.bytes)} in ${target.url}${filesOf(taken)}`)
    if (!context.json && backupPassphrase(config) === '') context.print(NO_PASSPHRASE)
    return 0
  } finally {
    target.close()
    await store.stop()
  }
}

const NO_PASSPHRASE =
  'It is not encrypted, and the root secret is not in it: keep a copy of the root secret, or set backup.passphrase.'

const OPERATOR = { who: SYSTEM, ip: '' } as const

export async function backupList(context: Context): Promise<number> {
  const { config } = context.config()
  requireFolder(context.flag('to'))
  const all = await withTarget(context, config, listBackups)
  const shown = all.map(shownBackup)
  if (context.json) context.print(JSON.stringify({ items: shown }))
  else if (shown.length === 0)
    context.print(`no backup in ${openBackupTarget(config, backupTargetOf(context, config)).url}`)
  else {
    const rows = shown.map((one) => [
      one.id,
      one.state,
      one.kind,
      megabytes(one.bytes),
      one.server?.slice(0, 8) ?? '',
      one.verification ?? '',
      one.state === 'sealed' ? `sealed with another key: ${one.error}` : (one.error ?? ''),
    ])
    context.print(textTable(['id', 'state', 'kind', 'size', 'server', 'verification', 'error'], rows))
  }
  return 0
}

/** What is named here and is not there was probably mistyped. */
function requireFolder(to: string | true | undefined): void {
  if (typeof to !== 'string' || isS3Url(to)) return
  const found = statSync(to, { throwIfNoEntry: false })
  if (!found) throw new Error(`there is nothing at ${resolve(to)}`)
  if (!found.isDirectory()) throw new Error(`${resolve(to)} is no folder`)
}

/** Exit code 1 unless it is good. */
export async function backupVerify(context: Context): Promise<number> {
  const [id = ''] = context.args
  const { config } = context.config()
  return withTarget(context, config, async (target, seals) => {
    const found = await chooseBackup(target, seals, { id })
    const verdict = await verifyBackup({
      target,
      seals,
      backup: found,
      scratchIn: config.data_dir,
      binDir: config.database.embedded_bin_dir,
      say: context.json ? () => {} : context.print,
    })
    const { verification, verification_error: error, tables, rows, indexes } = verdict
    const counts = tables === undefined ? '' : `: ${tables} tables, ${rows} rows, ${indexes} indexes`
    context.print(context.json ? JSON.stringify({ id, ...verdict }) : `backup ${id} is ${verification}${counts}`)
    if (error !== undefined && !context.json) context.print(error)
    return verification === 'good' ? 0 : 1
  })
}

export async function backupPrune(context: Context): Promise<number> {
  const { config } = context.config()
  requireNoDrill(config)
  requireDatabase(config)
  const { keep } = config.backup
  const pruned = await withTarget(context, config, async (target, seals) => {
    return pruneBackups({ target, seals, keep, origin: await withDatabaseUrl(config, originAt) })
  })
  const { backups, files, segments, untouched = [] } = pruned
  const left = untouched.length === 0 ? '' : `; left ${untouched.length} of other servers or sealed with another key`
  const text = `removed ${backups.length} backups, ${files} files and ${segments} segments of the log${left}`
  context.print(context.json ? JSON.stringify(pruned) : text)
  return 0
}

const filesOf = ({ files }: BackupDetails): string => {
  if (files.count === 0) return ''
  return `, ${files.count} files ${files.kind === 'copied' ? `(${megabytes(files.bytes)})` : 'listed: they stay in S3'}`
}

export const megabytes = (bytes: number): string =>
  bytes < 1e6 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`

export function backupTargetOf(context: Context, config: Config, flag: 'to' | 'from' = 'to'): string {
  const given = context.flag(flag)
  const to = typeof given === 'string' ? given : config.backup.to
  if (to === '') throw new UsageError(`no backup target: give --${flag} DIR or s3://bucket/prefix, or set backup.to`)
  return to
}

/** A restored server that was not taken over writes to no target: it might be that of the server it was copied from. */
function requireNoDrill(config: Config): void {
  if (config.database.url !== '' || !readRestored(config.data_dir)?.drill) return
  throw new Error(
    `${config.data_dir} is a drill: svc restore take-over --data-dir ${config.data_dir} makes it the server`,
  )
}

/** Without it nothing says which backups are ours, and one that was only just made would have none. */
function requireDatabase(config: Config): void {
  if (config.database.url !== '' || existsSync(join(config.data_dir, 'postgres'))) return
  throw new Error(`there is no database in ${config.data_dir}: only the server of a backup removes it`)
}

async function rootSecretOf(config: Config, db: Db): Promise<string> {
  const file = config.database.url === '' ? rootSecretFile(config.data_dir) : undefined
  return loadRootSecret(db, config.auth.jwt_secret, file)
}

/** The root secret as far as it is known without a database. */
const knownRootSecret = (config: Config): string | undefined =>
  config.auth.jwt_secret || (config.database.url === '' ? rootSecretFile(config.data_dir).read() : undefined)

/** For commands that read a target and need no database. */
async function withTarget<T>(
  context: Context,
  config: Config,
  work: (target: BackupTarget, seals: Seals) => Promise<T>,
): Promise<T> {
  const target = openBackupTarget(config, backupTargetOf(context, config))
  try {
    return await work(target, sealsOf(config, knownRootSecret(config)))
  } finally {
    target.close()
  }
}

/** One line that is written over, on a terminal. */
function progressLine(context: Context): { show(progress: BackupProgress): void; end(): void } {
  if (context.json || !process.stderr.isTTY) return { show: () => {}, end: () => {} }
  let last = 0
  return {
    show({ bytes, expected, part }) {
      if (Date.now() - last < 200) return
      last = Date.now()
      const share = expected > 0 ? ` of about ${megabytes(Math.max(expected, bytes))}` : ''
      process.stderr.write(`\r\x1b[K${part}: ${megabytes(bytes)}${share}`)
    },
    end: () => void process.stderr.write('\r\x1b[K'),
  }
}
