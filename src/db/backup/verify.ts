import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type pg from 'pg'
import { reasonOf } from '../../core/errors.ts'
import type { PgError } from '../pg-errors.ts'
import { openConnection } from '../protocol/driver.ts'
import { accountFor } from '../setup/embedded/account.ts'
import { findBinaries } from '../setup/embedded/binaries.ts'
import { makeDataDir } from '../setup/embedded/data-dir.ts'
import { type Embedded, startEmbedded } from '../setup/embedded/embedded.ts'
import { holderOf } from '../setup/embedded/lock.ts'
import { runningPostmaster, stopPostmaster } from '../setup/embedded/postmaster.ts'
import { markRestoring, writeRestored } from '../setup/embedded/restored.ts'
import { loadLogical, readDefinitions } from './logical/load.ts'
import { missingBlobs } from './restore/blobs.ts'
import { configureCluster } from './restore/configuration.ts'
import {
  addedExtensions,
  joinExtensions,
  missingExtensions,
  placeExtensions,
  removeExtensions,
  travelledExtensions,
} from './restore/extensions.ts'
import { recoverCluster } from './restore/recover.ts'
import { BlobCopies } from './stored/files.ts'
import { type BackupDetails, objectOf, writeRecord } from './stored/records.ts'
import { SealError, type Seals } from './stored/seal.ts'
import { StoredBackup } from './stored/stored-backup.ts'
import type { BackupTarget } from './target/target.ts'

export type BackupVerdict = {
  verification: string
  verified_at?: string
  verification_error?: string
  tables?: number
  rows?: number
  indexes?: number
}

export type VerifyOptions = {
  target: BackupTarget
  seals: Seals
  backup: BackupDetails
  /** Gets a folder that is removed again; needs room for the whole database. */
  scratchIn: string
  binDir: string
  signal?: AbortSignal | undefined
  say?: (line: string) => void
}

const PREFIX = 'verify-'

/** A backup that does not hold; other errors say nothing about it. */
class BackupIsBad extends Error {}

/** Restores a backup into a scratch directory, starts it, checks what is there, and keeps the verdict beside the backup. */
export async function verifyBackup(options: VerifyOptions): Promise<BackupVerdict> {
  const { target, seals, backup, scratchIn, binDir } = options
  makeDataDir(scratchIn)
  await removeAbandoned(scratchIn, binDir)
  const verdict = await verdictOf(options)
  await writeRecord(target, seals, objectOf(backup.id, 'verified'), verdict)
  return verdict
}

async function verdictOf(options: VerifyOptions): Promise<BackupVerdict> {
  const { backup, scratchIn, binDir } = options
  const binaries = findBinaries(binDir, accountFor(join(scratchIn, 'postgres')))
  const { major } = binaries
  const fits = major === backup.major || (backup.kind === 'logical' && major > backup.major)
  if (!fits) return notVerified(`no PostgreSQL ${backup.major}`)
  const scratch = mkdtempSync(join(scratchIn, PREFIX))
  let missing: string[] = []
  try {
    const stored = new StoredBackup(backup, options.target, options.seals)
    const added = joinExtensions(await travelledExtensions(stored), addedExtensions(scratchIn, major))
    missing = missingExtensions(backup, binaries, added)
    if (backup.kind === 'logical' && missing.length > 0) return withoutExtensions(missing)
    markRestoring(scratch)
    placeExtensions(scratch, major, added)
    const counts = await tryOut(options, stored, scratch)
    return { verification: 'good', verified_at: new Date().toISOString(), ...counts }
  } catch (error) {
    if (!(error instanceof BackupIsBad || error instanceof SealError)) throw error
    if (missing.length > 0 && needsLibrary(error)) return withoutExtensions(missing)
    return { verification: 'failed', verified_at: new Date().toISOString(), verification_error: reasonOf(error) }
  } finally {
    removeExtensions(scratch, major)
    rmSync(scratch, { recursive: true, force: true })
  }
}

const notVerified = (reason: string): BackupVerdict => ({ verification: `not verified: ${reason} here` })
const withoutExtensions = (missing: readonly string[]): BackupVerdict =>
  notVerified(`no extension${missing.length > 1 ? 's' : ''} ${missing.join(', ')}`)

/** An index whose functions are in a library that is not here: it says nothing about the backup. */
const needsLibrary = ({ cause }: Error): boolean =>
  (cause as PgError | undefined)?.code === '58P01' && /^could not access file /.test(reasonOf(cause))

async function tryOut(options: VerifyOptions, stored: StoredBackup, scratch: string): Promise<Counts> {
  const { target, seals, backup, signal, say = () => {} } = options
  say('checking seals and checksums')
  const { cluster, url } =
    backup.kind === 'logical' ? await tryLogical(options, stored, scratch) : await tryPhysical(options, stored, scratch)
  try {
    signal?.throwIfAborted()
    say('checking indexes and tables')
    const counts = await checkDatabases(url, signal).catch(bad)
    if (backup.files.kind === 'copied') await checkFiles(url, new BlobCopies(target, seals, backup.files.folder))
    return counts
  } finally {
    await cluster.stop()
  }
}

const bad = (error: unknown): never => {
  throw new BackupIsBad(reasonOf(error), { cause: error })
}

type Tried = { cluster: Embedded; url: string }

async function tryPhysical(options: VerifyOptions, stored: StoredBackup, scratch: string): Promise<Tried> {
  const { backup, binDir, signal, say = () => {} } = options
  const manifest = await stored.check(() => signal?.throwIfAborted())
  const clusterDir = join(scratch, 'postgres')
  await mkdir(clusterDir, { mode: 0o700 })
  say('unpacking')
  await stored.unpack(manifest, clusterDir, () => signal?.throwIfAborted())
  configureCluster(clusterDir)
  const { database, user } = backup
  writeRestored(scratch, {
    ...{ backup: backup.id, restored_at: new Date().toISOString(), reached: { lsn: null, at: null } },
    ...{ drill: true, database, user },
  })
  say('recovering')
  const { cluster } = await recoverCluster({ dataDir: scratch, binDir, target: { kind: 'end' }, log: say }).catch(bad)
  return { cluster, url: cluster.url }
}

async function tryLogical(options: VerifyOptions, stored: StoredBackup, scratch: string): Promise<Tried> {
  const { binDir, say = () => {} } = options
  await stored.checkSeals()
  const definitions = await readDefinitions(stored)
  const cluster = await startEmbedded({ dataDir: scratch, binDir, log: say, isRestoring: true })
  try {
    return { cluster, url: await loadLogical(cluster, stored, definitions, say).catch(bad) }
  } catch (error) {
    await cluster.stop()
    throw error
  }
}

async function checkFiles(url: string, copies: BlobCopies): Promise<void> {
  const client = await openConnection({ url })
  try {
    const missing = await missingBlobs(client, copies)
    if (missing > 0) throw new BackupIsBad(`${missing} files are missing in the target`)
  } finally {
    await client.end().catch(() => {})
  }
}

type Counts = { tables: number; rows: number; indexes: number }

async function checkDatabases(url: string, signal: AbortSignal | undefined): Promise<Counts> {
  const first = await openConnection({ url, applicationName: 'svc verify' })
  const total: Counts = { tables: 0, rows: 0, indexes: 0 }
  let names: string[] = []
  try {
    const { rows } = await first.query<{ name: string }>('select datname as name from pg_database where datallowconn')
    names = rows.map(({ name }) => name)
  } finally {
    await first.end().catch(() => {})
  }
  for (const name of names) {
    const [head = '', parameters] = url.split('?')
    const client = await openConnection({
      url: `${head.replace(/\/[^/]*$/, '')}/${encodeURIComponent(name)}${parameters ? `?${parameters}` : ''}`,
      applicationName: 'svc verify',
    })
    try {
      const counts = await checkDatabase(client, signal)
      for (const key of ['tables', 'rows', 'indexes'] as const) total[key] += counts[key]
    } finally {
      await client.end().catch(() => {})
    }
  }
  return total
}

/** Where PostgreSQL has amcheck: every b-tree against its table, every table page by page. Everywhere: all rows are read. */
async function checkDatabase(client: pg.Client, signal: AbortSignal | undefined): Promise<Counts> {
  const counts: Counts = { tables: 0, rows: 0, indexes: 0 }
  const { rows: amcheck } = await client.query(`select from pg_available_extensions where name = 'amcheck'`)
  const hasAmcheck = amcheck.length > 0
  if (hasAmcheck) {
    await client.query('create schema svc_verify; create extension amcheck schema svc_verify')
    for (const { oid } of await listOf(client, BTREES)) {
      signal?.throwIfAborted()
      await client.query(`select svc_verify.bt_index_check(${oid}::regclass, true)`)
      counts.indexes++
    }
  }
  for (const { oid, name } of await listOf(client, TABLES)) {
    signal?.throwIfAborted()
    if (hasAmcheck) {
      const { rows } = await client.query<{ msg: string }>(
        `select msg from svc_verify.verify_heapam(${oid}::regclass) limit 1`,
      )
      if (rows[0]) throw new BackupIsBad(`${name}: ${rows[0].msg}`)
    }
    const { rows } = await client.query<{ count: string }>(`select count(*) as count from only ${name}`)
    counts.tables++
    counts.rows += Number(rows[0]?.count ?? 0)
  }
  return counts
}

type Relation = { oid: string; name: string }

const listOf = async (client: pg.Client, text: string): Promise<Relation[]> => (await client.query<Relation>(text)).rows

const NAME = `c.oid::text as oid, format('%I.%I', n.nspname, c.relname) as name`
const PLACE = 'from pg_class c join pg_namespace n on n.oid = c.relnamespace'
const BTREES = `select ${NAME} ${PLACE} join pg_index i on i.indexrelid = c.oid join pg_am a on a.oid = c.relam
  where a.amname = 'btree' and i.indisvalid and i.indisready and c.relkind = 'i' and c.relpersistence = 'p'`
const TABLES = `select ${NAME} ${PLACE} where c.relkind in ('r', 'm', 't') and c.relpersistence = 'p'`

/** Scratch directories of processes that were killed, and PostgreSQL in them. */
async function removeAbandoned(scratchIn: string, binDir: string): Promise<void> {
  for (const name of readdirSync(scratchIn)) {
    const scratch = join(scratchIn, name)
    if (!name.startsWith(PREFIX) || holderOf(scratch)) continue
    const clusterDir = join(scratch, 'postgres')
    const left = runningPostmaster(clusterDir)
    if (left) await stopPostmaster(clusterDir, left.pid, findBinaries(binDir, accountFor(clusterDir)))
    rmSync(scratch, { recursive: true, force: true })
  }
}
