import { listIndex } from './stored/archive-index.ts'
import { BlobCopies, FIRST_FOLDER, fileFolders, SHARDS } from './stored/files.ts'
import { isOf, type Origin } from './stored/origin.ts'
import { type BackupDetails, listBackups, objectOf, readRecord } from './stored/records.ts'
import { SealError, type Seals } from './stored/seal.ts'
import { StoredBackup } from './stored/stored-backup.ts'
import { type ArchiveRecord, archiveRecordName, listPieces, MOST_SEGMENT, parseLsn } from './stored/wal.ts'
import { DiskTarget } from './target/disk-target.ts'
import type { BackupTarget } from './target/target.ts'

export type Pruned = {
  backups: string[]
  files: number
  segments: number
  /** Of other servers, or sealed with another key. */
  untouched?: string[]
}

/** Failed ones stay in the list for a while, so that people see them. */
const FAILED_KEPT_MS = 7 * 86_400_000
/** A clock of another machine, and copies that a backup under way has made already. */
const MARGIN_MS = 86_400_000

export type PruneOptions = { target: BackupTarget; seals: Seals; keep: number; origin: Origin }

/**
 * Removes what is in none of the `keep` newest good backups of this server; without a good one nothing goes. What is sealed with
 * another key, or belongs to another server, neither counts nor goes.
 */
export async function pruneBackups({ target, seals, keep, origin }: PruneOptions): Promise<Pruned> {
  if (target instanceof DiskTarget) await target.removeDrafts()
  const everything = await listBackups(target, seals)
  const all = everything.filter((one) => one.state !== 'sealed' && isOf(one, origin))
  const others = everything.filter((one) => !all.includes(one))
  const untouched = others.length > 0 ? { untouched: others.map(({ id }) => id) } : {}
  const good = all.filter(({ state }) => state === 'good')
  const kept = new Set(good.slice(-keep))
  const [oldest] = kept
  if (!oldest) return { backups: [], files: 0, segments: 0, ...untouched }
  const isOld = ({ started_at }: BackupDetails): boolean =>
    started_at < oldest.started_at || Date.now() - Date.parse(started_at) > FAILED_KEPT_MS
  const leaving = all.filter((one) => one.state !== 'running' && !kept.has(one) && (one.state === 'good' || isOld(one)))
  const folders = new Set([
    ...(await fileFolders(seals, origin.server)),
    ...good.flatMap(({ files }) => files.folder ?? []),
    // It has no owner: anybody's older backups may need what is there.
    ...(others.length === 0 ? [FIRST_FOLDER] : []),
  ])
  for (const one of leaving) await removeBackup(target, one.id)
  let files = 0
  for (const folder of folders) {
    files += await pruneBlobs(target, seals, new BlobCopies(target, seals, folder), [...kept], oldest)
  }
  return {
    backups: leaving.map(({ id }) => id),
    files,
    segments: await pruneArchives(target, seals, [...kept], origin),
    ...untouched,
  }
}

/** The newest archive is under way even before its first base backup is good. */
const YOUNG_MS = 86_400_000

/** Every piece of the log that a kept backup needs stays, up to the end of its archive. */
async function pruneArchives(
  target: BackupTarget,
  seals: Seals,
  kept: readonly BackupDetails[],
  origin: Origin,
): Promise<number> {
  const archives = new Set<string>()
  for await (const { name } of target.list('wal/')) archives.add(name.split('/')[1] ?? '')
  for await (const { name } of target.list('archives/')) archives.add(name.split('/')[1] ?? '')
  archives.delete('latency')
  let removed = 0
  for (const archive of archives) {
    const needing = kept.filter((one) => one.archive === archive && one.from !== null)
    const record = await ownArchive(target, seals, archive, origin)
    if (needing.length === 0 && (!record || Date.now() - Date.parse(record.created_at) < YOUNG_MS)) continue
    const from = needing.length === 0 ? undefined : needing.map((one) => parseLsn(one.from ?? '0/0')).reduce(least)
    removed += await pruneArchive(target, archive, from)
    if (from === undefined) await target.remove(archiveRecordName(archive))
  }
  return removed
}

/** Undefined where it is of another server, or sealed with another key. */
async function ownArchive(
  target: BackupTarget,
  seals: Seals,
  archive: string,
  origin: Origin,
): Promise<ArchiveRecord | undefined> {
  try {
    const record = await readRecord<ArchiveRecord>(target, seals, archiveRecordName(archive))
    const isOwn = record?.server === undefined ? record?.system_id === origin.systemId : record.server === origin.server
    return isOwn ? record : undefined
  } catch (error) {
    if (error instanceof SealError) return undefined
    throw error
  }
}

const least = (a: bigint, b: bigint): bigint => (a < b ? a : b)

/** Without a position everything goes. A piece ends where the next one begins, or later. */
async function pruneArchive(target: BackupTarget, archive: string, from: bigint | undefined): Promise<number> {
  const pieces = await listPieces(target, archive)
  const last = from === undefined ? pieces.length : pieces.findLastIndex(({ start }) => start <= from - MOST_SEGMENT)
  const leaving = pieces.slice(0, Math.max(0, last))
  for (const { name } of leaving) await target.remove(name)
  for (const { name, to } of await listIndex(target, archive)) {
    if (from === undefined || to < from) await target.remove(name)
  }
  return leaving.length
}

/** `done` goes first: what is half removed is no longer good. */
export async function removeBackup(target: BackupTarget, id: string): Promise<void> {
  await target.remove(objectOf(id, 'done'))
  const names: string[] = []
  for await (const { name } of target.list(`backups/${id}/`)) names.push(name)
  for (const name of names) await target.remove(name)
}

/**
 * A blob is needed by the backups that list it in this folder, and by moments after the oldest one while an archive is kept: those
 * that came to the target since.
 */
async function pruneBlobs(
  target: BackupTarget,
  seals: Seals,
  copies: BlobCopies,
  kept: readonly BackupDetails[],
  oldest: BackupDetails,
): Promise<number> {
  const since = Date.parse(oldest.started_at) - MARGIN_MS
  const listed = new Set<string>()
  for (const one of kept) {
    if ((one.files.folder ?? FIRST_FOLDER) !== copies.folder) continue
    for await (const id of listedBlobs(new StoredBackup(one, target, seals))) listed.add(id)
  }
  let removed = 0
  for (const shard of SHARDS) {
    for (const [id, { modifiedAt }] of await copies.present(shard)) {
      if (listed.has(id) || modifiedAt >= since) continue
      await copies.remove(id)
      removed++
    }
  }
  return removed
}

/** Ids of a backup's files; a line is `id size sha256`. */
export async function* listedBlobs(stored: StoredBackup): AsyncGenerator<string> {
  if (!stored.details.objects.includes('files')) return
  let rest = ''
  for await (const part of stored.open('files')) {
    const lines = (rest + part.toString('latin1')).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) yield line.slice(0, 36)
  }
}
