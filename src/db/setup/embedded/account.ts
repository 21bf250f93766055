import { chownSync, lchownSync, lstatSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { readIfThere } from './process.ts'

/** PostgreSQL refuses to run as root, so root lends it an unprivileged account. `undefined` = run as ourselves. */
export type Account = { uid: number; gid: number } | undefined

const isRoot = (): boolean => process.getuid?.() === 0

function nobody(): { uid: number; gid: number } {
  const entry = readIfThere('/etc/passwd')?.match(/^nobody:[^:]*:(\d+):(\d+):/m)
  return { uid: Number(entry?.[1] ?? 65534), gid: Number(entry?.[2] ?? 65534) }
}

/** A cluster that already belongs to an ordinary account stays with it, so that sudo does not take it away. */
export function accountFor(clusterDir: string): Account {
  const owner = statSync(clusterDir, { throwIfNoEntry: false })
  if (isRoot()) return owner && owner.uid !== 0 ? { uid: owner.uid, gid: owner.gid } : nobody()
  if (owner && process.getuid && owner.uid !== process.getuid()) {
    throw new Error(`${clusterDir} belongs to another user (uid ${owner.uid}): start the server as that user`)
  }
  return undefined
}

export function give(path: string, account: Account): void {
  if (account) chownSync(path, account.uid, account.gid)
}

/** For a cluster that root has copied or restored: its files belong to root, and PostgreSQL could not read them. */
export function giveTree(dir: string, account: Account): void {
  if (!account || lstatSync(join(dir, 'PG_VERSION')).uid === account.uid) return
  for (const name of readdirSync(dir, { recursive: true, encoding: 'utf8' })) {
    lchownSync(join(dir, name), account.uid, account.gid)
  }
  give(dir, account)
}
