import type { BackupTarget } from '../target/target.ts'
import { type BackupDetails, listBackups } from './records.ts'
import { SealError, type Seals } from './seal.ts'

/** The newest good backup that fits, or the one of this id, looked up in the list: an id is never made into a path. */
export async function chooseBackup(
  target: BackupTarget,
  seals: Seals,
  { id, fits = () => true }: { id?: string | undefined; fits?: (backup: BackupDetails) => boolean },
): Promise<BackupDetails> {
  const all = await listBackups(target, seals)
  if (id !== undefined) {
    const found = all.find((backup) => backup.id === id)
    if (!found) throw new SealError(`there is no backup ${JSON.stringify(id.slice(0, 100))} in ${target.url}`)
    if (found.state !== 'good') throw new SealError(`backup ${id} is not good: ${found.error ?? found.state}`)
    return found
  }
  const good = all.filter(({ state }) => state === 'good')
  requireOneServer(good, target)
  const [newest] = good.filter(fits).reverse()
  if (newest) return newest
  const sealed = all.find(({ state }) => state === 'sealed')
  if (good.length === 0 && sealed) throw new SealError(sealed.error ?? '')
  throw new SealError(good.length === 0 ? `there is no good backup in ${target.url}` : 'no backup is old enough')
}

/** The newest one may be of a server that was only just made in place of a lost one. */
export function requireOneServer(backups: readonly BackupDetails[], target: BackupTarget): void {
  const servers = new Set(backups.flatMap(({ server }) => server ?? []))
  if (servers.size < 2) return
  throw new SealError(
    `backups of ${servers.size} servers are in ${target.url}: name one by its id (svc backup list --to ${target.url})`,
  )
}
