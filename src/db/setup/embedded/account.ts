import { createHash } from 'node:crypto'
import { chownSync, lchownSync, lstatSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { readIfThere } from './process.ts'

/** PostgreSQL refuses to run as root, so root runs it under this account. `undefined` = our own account. */
export type SystemAccount = { uid: number; gid: number } | undefined

const NOBODY = 65534
/** Ranges that no distribution assigns; in the first, two data directories practically never collide. */
const LARGE = { first: 1_879_048_192, count: 268_435_454 }
const SMALL = { first: 60_706, count: 478 }

const isRoot = (): boolean => process.getuid?.() === 0
const accountOf = (uid: number): SystemAccount => ({ uid, gid: uid })

/**
 * The account that runs the cluster of a data directory. For root it is a uid that nothing else uses, because processes of
 * the same account can reach PostgreSQL through /proc, and many run as `nobody`. A cluster that already belongs to an
 * ordinary account keeps its owner, so that a start with sudo does not change it.
 */
export function accountFor(clusterDir: string): SystemAccount {
  const owner = statSync(clusterDir, { throwIfNoEntry: false })
  if (isRoot()) {
    const isOwned = owner && owner.uid !== 0 && owner.uid !== nobody()
    return isOwned ? { uid: owner.uid, gid: owner.gid } : accountOf(ownUid(clusterDir))
  }
  if (owner && process.getuid && owner.uid !== process.getuid()) {
    throw new Error(`${clusterDir} belongs to another user (uid ${owner.uid}): start the server as that user`)
  }
  return undefined
}

/** Derived from the path, so that it is the same at every start. A container that maps few ids has the small range. */
function ownUid(clusterDir: string): number {
  const range = isMapped(LARGE.first + LARGE.count) ? LARGE : SMALL
  const used = new Set([...namedAccounts().map(({ uid }) => uid), ...(range === SMALL ? runningUids() : [])])
  const start = createHash('sha256').update(clusterDir).digest().readUInt32BE(0) % range.count
  for (let i = 0; i < range.count; i++) {
    const uid = range.first + ((start + i) % range.count)
    if (!used.has(uid)) return uid
  }
  return nobody()
}

function isMapped(uid: number): boolean {
  const lines = readIfThere('/proc/self/uid_map')?.trim().split('\n') ?? []
  return lines.some((line) => {
    const [first = 0, , count = 0] = line.trim().split(/\s+/).map(Number)
    return uid >= first && uid < first + count
  })
}

function namedAccounts(): { name: string; uid: number; gid: number }[] {
  const lines = readIfThere('/etc/passwd')?.split('\n') ?? []
  return lines.flatMap((line) => {
    const [name = '', , uid, gid] = line.split(':')
    return uid ? [{ name, uid: Number(uid), gid: Number(gid) }] : []
  })
}

const nobody = (): number => namedAccounts().find(({ name }) => name === 'nobody')?.uid ?? NOBODY

function runningUids(): Set<number> {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return new Set(pids.map((pid) => statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid ?? 0))
}

/**
 * The account that runs initdb, which requires a named one: a system account without running processes, so that none can
 * interfere. Afterwards the cluster gets its own owner.
 */
export function initdbAccount(account: SystemAccount): SystemAccount {
  if (!account || namedAccounts().some(({ uid }) => uid === account.uid)) return account
  const running = process.platform === 'linux' ? runningUids() : new Set<number>()
  const idle = namedAccounts().find(({ uid }) => uid > 0 && uid < 1000 && !running.has(uid))
  return idle ? { uid: idle.uid, gid: idle.gid } : accountOf(nobody())
}

export function chownTo(path: string, account: SystemAccount): void {
  if (account) chownSync(path, account.uid, account.gid)
}

export const needsChown = (clusterDir: string, account: SystemAccount): boolean => {
  const version = lstatSync(join(clusterDir, 'PG_VERSION'), { throwIfNoEntry: false })
  return account !== undefined && version !== undefined && version.uid !== account.uid
}

/**
 * Changes the owner of a new cluster, or of one that root has copied or restored. PG_VERSION is last, so that the next
 * start repeats an interrupted change.
 */
export function chownTree(dir: string, account: SystemAccount): void {
  if (!account) return
  if (!needsChown(dir, account)) return
  for (const name of readdirSync(dir, { recursive: true, encoding: 'utf8' })) {
    if (name !== 'PG_VERSION') lchownSync(join(dir, name), account.uid, account.gid)
  }
  chownTo(dir, account)
  chownTo(join(dir, 'PG_VERSION'), account)
}
