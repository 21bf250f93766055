import { type IndexEntry, readIndex } from '../stored/archive-index.ts'
import { requireOneServer } from '../stored/choose.ts'
import { type BackupDetails, listBackups } from '../stored/records.ts'
import type { Seals } from '../stored/seal.ts'
import { parseLsn } from '../stored/wal.ts'
import type { BackupTarget } from '../target/target.ts'
import type { RecoveryTarget } from './configuration.ts'

/** Why a moment cannot be restored; the message is for the operator. */
class NoSuchMoment extends Error {}

export type RestorePoint = { backup: BackupDetails; recovery: RecoveryTarget }

type RequestEntry = Extract<IndexEntry, { request: string }>
export type EndedEntry = Extract<IndexEntry, { ended: string }>

const MOMENT = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)\s*(Z|[+-]\d\d(?::?\d\d)?)?$/i

/** `2026-11-16 12:00:00+00` or RFC 3339; without a zone it is UTC. Undefined for anything else. */
export function parseRestoreTime(text: string): { text: string; ms: number } | undefined {
  const [, day, time, zone = 'Z'] = MOMENT.exec(text.trim()) ?? []
  if (day === undefined || time === undefined) return undefined
  const offset = /^z$/i.test(zone) ? '+00:00' : zone.replace(/^([+-]\d\d):?(\d\d)?$/, (_, h, m = '00') => `${h}:${m}`)
  const seconds = time.length === 5 ? `${time}:00` : time
  const ms = Date.parse(`${day}T${seconds.replace(/(\.\d{3})\d*$/, '$1')}${offset}`)
  return Number.isNaN(ms) ? undefined : { text: `${day} ${seconds}${offset}`, ms }
}

/** The newest good backup that was whole before a moment. */
export async function pointAt(
  target: BackupTarget,
  seals: Seals,
  { text, ms }: { text: string; ms: number },
  id: string | undefined,
): Promise<RestorePoint> {
  const backups = await goodBackups(target, seals, id)
  const backup = backups.findLast(({ consistent_at }) => Date.parse(consistent_at ?? '') <= ms)
  if (!backup) throw new NoSuchMoment(`no good backup was whole at ${text}`)
  return { backup, recovery: { kind: 'time', at: text } }
}

/** Just before the transaction of a request, which the index beside the archive names. */
export async function pointBefore(
  target: BackupTarget,
  seals: Seals,
  request: string,
  id: string | undefined,
): Promise<RestorePoint> {
  const backups = await goodBackups(target, seals, id)
  const archives = [...new Set(backups.flatMap(({ archive }) => archive ?? []))]
  if (archives.length === 0) throw new NoSuchMoment('--before needs a continuous archive: set backup.continuous')
  const found = new Map<string, RequestEntry & { archive: string }>()
  for (const archive of archives) {
    for await (const entry of readIndex(target, seals, archive)) {
      if (!('request' in entry) || entry.request !== request) continue
      const key = `${archive} ${entry.xid}`
      // It may be in the index twice, after the archive was interrupted; the first time is exact.
      if (!found.has(key)) found.set(key, { ...entry, archive })
    }
  }
  const [entry, ...others] = found.values()
  if (!entry) throw new NoSuchMoment(`the archive knows no request ${JSON.stringify(request.slice(0, 200))}`)
  if (others.length > 0) {
    const all = [entry, ...others].map(({ xid, at }) => `transaction ${xid} at ${at}`)
    throw new NoSuchMoment(`several transactions belong to the request: ${all.join(', ')}; choose a moment with --at`)
  }
  const from = parseLsn(entry.from)
  const backup = backups.findLast(({ archive, to }) => archive === entry.archive && to !== null && parseLsn(to) <= from)
  if (!backup) throw new NoSuchMoment('no good backup is older than that request')
  // The transaction's number in the log has 32 bits.
  return { backup, recovery: { kind: 'before', xid: (BigInt(entry.xid) & 0xffffffffn).toString() } }
}

async function goodBackups(target: BackupTarget, seals: Seals, id: string | undefined): Promise<BackupDetails[]> {
  const good = (await listBackups(target, seals)).filter(({ state, kind }) => state === 'good' && kind === 'physical')
  const chosen = id === undefined ? good : good.filter((one) => one.id === id)
  if (chosen.length === 0)
    throw new NoSuchMoment(`there is no good backup${id === undefined ? '' : ` ${id}`} in ${target.url}`)
  requireOneServer(chosen, target)
  return chosen
}

/** What the archive knows to have been revoked; after a restore to the past it is revoked again. */
export async function endedIn(target: BackupTarget, seals: Seals, archive: string | null): Promise<EndedEntry[]> {
  const ended: EndedEntry[] = []
  if (archive === null) return ended
  for await (const entry of readIndex(target, seals, archive)) if ('ended' in entry) ended.push(entry)
  return ended
}
