import { existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { openConnection } from '../../protocol/driver.ts'
import { accountFor } from '../../setup/embedded/account.ts'
import { type Binaries, findBinaries } from '../../setup/embedded/binaries.ts'
import { makeDataDir } from '../../setup/embedded/data-dir.ts'
import { startEmbedded } from '../../setup/embedded/embedded.ts'
import {
  MARKER,
  markRestoring,
  requireWholeRestore,
  unmarkRestoring,
  writeRestored,
} from '../../setup/embedded/restored.ts'
import { rootSecretFile } from '../../setup/embedded/secret-file.ts'
import type { LogicalDefinitions } from '../logical/definitions.ts'
import { loadLogical, readDefinitions } from '../logical/load.ts'
import { BlobCopies } from '../stored/files.ts'
import type { BackupDetails } from '../stored/records.ts'
import type { Seals } from '../stored/seal.ts'
import { StoredBackup } from '../stored/stored-backup.ts'
import { formatLsn } from '../stored/wal.ts'
import type { BackupTarget } from '../target/target.ts'
import { type RestoredBlobs, restoreBlobs } from './blobs.ts'
import { configureCluster, type RecoveryTarget } from './configuration.ts'
import { type EndedCredentials, endCredentials } from './credentials.ts'
import {
  addedExtensions,
  joinExtensions,
  missingExtensions,
  placeExtensions,
  removeExtensions,
  travelledExtensions,
} from './extensions.ts'
import { endedIn } from './point.ts'
import { type Reached, recoverCluster } from './recover.ts'
import { checkArchive, unpackArchive } from './wal.ts'

/** Why a restore is refused; the directory is as it was. */
class RestoreRefused extends Error {}

export type RestoreOptions = {
  target: BackupTarget
  seals: Seals
  backup: BackupDetails
  recovery: RecoveryTarget
  dataDir: string
  binDir: string
  /** Of the operator; a backup with passphrase has its own. */
  rootSecret: string | undefined
  takeOver: boolean
  /** After a restore to the past: sessions, grants and tokens of then stay good. */
  keepCredentials: boolean
  say: (line: string) => void
}

export type RestoreResult = {
  backup: string
  reached: Reached
  files: RestoredBlobs
  /** Undefined where nothing had to end. */
  ended: (EndedCredentials & { isKnown: boolean }) | undefined
  drill: boolean
  /** Their files are neither in the backup nor here. */
  missing_extensions: string[]
}

/** Restores into an empty directory, or leaves it as it was. */
export async function restoreBackup(options: RestoreOptions): Promise<RestoreResult> {
  const { backup, dataDir, binDir, seals, target, say } = options
  requireEmpty(dataDir)
  const stored = new StoredBackup(backup, target, seals)
  const binaries = requireMajor(backup, dataDir, binDir)
  say(`checking the seals of backup ${backup.id}`)
  const here = existsSync(dataDir) ? addedExtensions(dataDir, binaries.major) : undefined
  const added = joinExtensions(await travelledExtensions(stored), here)
  const missing = missingExtensions(backup, binaries, added)
  for (const name of missing) say(missingExtension(name, dataDir))
  const fill =
    backup.kind === 'logical' ? await prepareLogical(stored, missing) : await preparePhysical(options, stored)
  const rootSecret = (await stored.rootSecret()) ?? options.rootSecret
  if (rootSecret === undefined)
    throw new RestoreRefused('the root secret is not in this backup: give --root-secret FILE')
  const isNew = claim(dataDir)
  try {
    placeExtensions(dataDir, binaries.major, added)
    rootSecretFile(dataDir).keep(rootSecret)
    const result = await fill(options)
    unmarkRestoring(dataDir)
    return { ...result, missing_extensions: missing }
  } catch (error) {
    removeExtensions(dataDir, binaries.major)
    for (const name of readdirSync(dataDir)) rmSync(join(dataDir, name), { recursive: true, force: true })
    placeExtensions(dataDir, binaries.major, here)
    if (isNew) rmSync(dataDir, { recursive: true, force: true })
    throw error
  }
}

const missingExtension = (name: string, dataDir: string): string =>
  `the extension ${name} is in the database, and its files are missing: svc extensions add ${name} --data-dir ${dataDir}`

type Filled = Omit<RestoreResult, 'missing_extensions'>

/** Checks everything that is read, and writes nothing; what it resolves to writes. */
async function preparePhysical(
  { target, seals, backup, say }: RestoreOptions,
  stored: StoredBackup,
): Promise<(options: RestoreOptions) => Promise<Filled>> {
  const manifest = await stored.check()
  const end = await checkArchive(target, seals, backup)
  return async (options) => {
    const clusterDir = join(options.dataDir, 'postgres')
    await mkdir(clusterDir, { mode: 0o700 })
    say('unpacking the database')
    await stored.unpack(manifest, clusterDir)
    if (backup.archive !== null) say(`unpacking the log up to ${formatLsn(end)}`)
    await unpackArchive(target, seals, backup, clusterDir)
    configureCluster(clusterDir)
    return recover(options)
  }
}

async function prepareLogical(
  stored: StoredBackup,
  missing: readonly string[],
): Promise<(options: RestoreOptions) => Promise<Filled>> {
  if (missing.length > 0) {
    throw new RestoreRefused(
      `a logical copy cannot be restored without the extensions of its database: ${missing.join(', ')}`,
    )
  }
  await stored.checkSeals()
  const definitions = await readDefinitions(stored)
  return (options) => load(options, stored, definitions)
}

/** Into a new cluster. */
async function load(options: RestoreOptions, stored: StoredBackup, definitions: LogicalDefinitions): Promise<Filled> {
  const { backup, dataDir, binDir, takeOver, target, seals, say } = options
  const cluster = await startEmbedded({ dataDir, binDir, log: say, isRestoring: true })
  let after: Awaited<ReturnType<typeof afterRecovery>>
  try {
    const url = await loadLogical(cluster, stored, definitions, say)
    after = await afterRecovery(url, options, new BlobCopies(target, seals, backup.files.folder))
  } finally {
    await cluster.stop()
  }
  const reached = { lsn: backup.to, at: backup.consistent_at }
  writeRestored(dataDir, { ...aboutOf(backup, takeOver), reached })
  return { backup: backup.id, reached: { ...reached, isBeyond: false }, ...after, drill: !takeOver }
}

const aboutOf = ({ id, database, user }: BackupDetails, takeOver: boolean) => ({
  backup: id,
  restored_at: new Date().toISOString(),
  database,
  user,
  drill: !takeOver,
})

async function recover(options: RestoreOptions): Promise<Filled> {
  const { backup, dataDir, binDir, recovery, takeOver, target, seals, say } = options
  const about = aboutOf(backup, takeOver)
  writeRestored(dataDir, { ...about, reached: { lsn: null, at: null } })
  say('recovering')
  const { cluster, reached } = await recoverCluster({ dataDir, binDir, target: recovery, log: say })
  let after: Awaited<ReturnType<typeof afterRecovery>>
  try {
    after = await afterRecovery(cluster.url, options, new BlobCopies(target, seals, backup.files.folder))
  } finally {
    await cluster.stop()
  }
  writeRestored(dataDir, { ...about, reached: { lsn: reached.lsn, at: reached.at } })
  return { backup: backup.id, reached, ...after, drill: !takeOver }
}

async function afterRecovery(url: string, options: RestoreOptions, copies: BlobCopies) {
  const { backup, dataDir, recovery, keepCredentials, target, seals, say } = options
  const client = await openConnection({ url, applicationName: 'svc restore' })
  try {
    const isPast = recovery.kind !== 'end' && !keepCredentials
    const known = isPast ? await endedIn(target, seals, backup.archive) : []
    const ended = isPast ? { ...(await endCredentials(client, known)), isKnown: backup.archive !== null } : undefined
    if (backup.files.kind !== 'copied') return { files: { count: 0, bytes: 0, missing: 0 }, ended }
    say('restoring files')
    return { files: await restoreBlobs(client, copies, join(dataDir, 'storage')), ended }
  } finally {
    await client.end().catch(() => {})
  }
}

/** Nothing is ever overwritten. Extensions may have been added to the directory before. */
function requireEmpty(dataDir: string, mayHave = ['extensions']): void {
  const found = statSync(dataDir, { throwIfNoEntry: false })
  if (!found) return
  if (found.isDirectory() && readdirSync(dataDir).every((name) => mayHave.includes(name))) return
  requireWholeRestore(dataDir)
  throw new RestoreRefused(`${dataDir} is not empty: restore into a new directory`)
}

/**
 * True where there was no such directory. The seals took their time: a server that was started in it meanwhile is seen here, or
 * sees the mark.
 */
function claim(dataDir: string): boolean {
  requireEmpty(dataDir)
  const isNew = !existsSync(dataDir)
  makeDataDir(dataDir)
  markRestoring(dataDir)
  try {
    requireEmpty(dataDir, ['extensions', MARKER])
  } catch (error) {
    unmarkRestoring(dataDir)
    throw error
  }
  return isNew
}

function requireMajor({ major, kind }: BackupDetails, dataDir: string, binDir: string): Binaries {
  const binaries = findBinaries(binDir, accountFor(join(dataDir, 'postgres')))
  // A logical copy is SQL, which newer versions read too.
  if (binaries.major === major || (kind === 'logical' && binaries.major > major)) return binaries
  throw new RestoreRefused(
    `the backup is of PostgreSQL ${major} and this is ${binaries.version}: ` +
      `point database.embedded_bin_dir at a PostgreSQL ${major}`,
  )
}
