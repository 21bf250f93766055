import { openArchive } from './archive/slot.ts'
import { listIndex } from './stored/archive-index.ts'
import { blobOf, FILES, FIRST_FOLDER, fileFolders } from './stored/files.ts'
import { isOf, type Origin } from './stored/origin.ts'
import { type BackupDetails, listBackups, objectOf } from './stored/records.ts'
import type { Seals } from './stored/seal.ts'
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
  const own = [...(await fileFolders(seals, origin.server)), ...good.flatMap(({ files }) => files.folder ?? [])]
  for (const one of leaving) await removeBackup(target, one.id)
  const run = { target, seals, origin, kept: [...kept], isAlone: others.length === 0 }
  return {
    backups: leaving.map(({ id }) => id),
    files: await pruneBlobs(run, new Set(own), oldest),
    segments: await pruneArchives(run),
    ...untouched,
  }
}

type Run = Omit<PruneOptions, 'keep'> & {
  kept: readonly BackupDetails[]
  /** No other server or key has a backup in the target, so no backup needs what is not ours. */
  isAlone: boolean
}

/** The newest archive is under way even before its first base backup is good. */
const YOUNG_MS = 86_400_000

/** Every piece of the log that a kept backup needs stays, up to the end of its archive. */
async function pruneArchives(run: Run): Promise<number> {
  const { target, kept } = run
  const archives = new Set<string>()
  for await (const { name } of target.list('wal/')) archives.add(name.split('/')[1] ?? '')
  for await (const { name } of target.list('archives/')) archives.add(name.split('/')[1] ?? '')
  archives.delete('latency')
  let removed = 0
  for (const archive of archives) {
    const needing = kept.filter((one) => one.archive === archive && one.from !== null)
    if (needing.length === 0 && !(await isAbandoned(run, archive))) continue
    const from = needing.length === 0 ? undefined : needing.map((one) => parseLsn(one.from ?? '0/0')).reduce(least)
    removed += await pruneArchive(target, archive, from)
    if (from === undefined) await target.remove(archiveRecordName(archive))
  }
  return removed
}

async function isAbandoned(run: Run, archive: string): Promise<boolean> {
  const record = await ownArchive(run, archive)
  if (record) return Date.now() - Date.parse(record.created_at) >= YOUNG_MS
  if (!run.isAlone) return false
  const written: number[] = []
  for await (const { modifiedAt } of run.target.list(`wal/${archive}/`)) written.push(modifiedAt)
  for await (const { name, modifiedAt } of run.target.list('archives/')) {
    if (name === archiveRecordName(archive)) written.push(modifiedAt)
  }
  return written.every((at) => Date.now() - at >= YOUNG_MS)
}

/** Undefined where it is of another server, or sealed with another key. */
async function ownArchive({ target, seals, origin }: Run, archive: string): Promise<ArchiveRecord | undefined> {
  const record = await openArchive(target, seals, archive)
  const isOwn = record?.server === undefined ? record?.system_id === origin.systemId : record.server === origin.server
  return isOwn ? record : undefined
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
 * A blob is needed by the backups that list it in its folder, and by moments after the oldest one while an archive is kept: those
 * that came to the target since. What has no owner, or another one, goes only where `isAlone`.
 */
async function pruneBlobs(run: Run, own: ReadonlySet<string>, oldest: BackupDetails): Promise<number> {
  const { target, seals, kept, isAlone } = run
  const since = Date.parse(oldest.started_at) - MARGIN_MS
  const listed = new Set<string>()
  for (const one of kept) {
    const folder = one.files.folder ?? FIRST_FOLDER
    for await (const id of listedBlobs(new StoredBackup(one, target, seals))) listed.add(`${folder} ${id}`)
  }
  let removed = 0
  for (const place of isAlone ? [FILES, FIRST_FOLDER] : own) {
    for await (const { name, modifiedAt } of target.list(`${place}/`)) {
      const blob = blobOf(name)
      if (!blob || modifiedAt >= since || listed.has(`${blob.folder} ${blob.id}`)) continue
      await target.remove(name)
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
