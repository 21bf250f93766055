import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { holderOf } from '../../src/db/setup/embedded/lock.ts'
import { runningPostmaster } from '../../src/db/setup/embedded/postmaster.ts'

const prefix = 'svc-tests-'

/** A temporary folder, in memory if there is room, because a run creates hundreds of databases. */
export function scratchFolder(): string {
  const parent = hasRoom('/dev/shm') ? '/dev/shm' : tmpdir()
  removeLeftovers(parent)
  const folder = mkdtempSync(join(parent, prefix))
  // When run as root, PostgreSQL and other programs of the tests use other accounts and need access.
  chmodSync(folder, 0o755)
  return folder
}

function hasRoom(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize > 4 * 1024 ** 3
  } catch {
    return false
  }
}

/** Stops and removes the clusters of runs that were killed. */
function removeLeftovers(parent: string): void {
  for (const name of readdirSync(parent).filter((entry) => entry.startsWith(prefix))) {
    const clusters = ['pg', 'pg-extensions'].map((kind) => join(parent, name, kind)).filter((dir) => existsSync(dir))
    if (clusters.length === 0 || clusters.some((dir) => !existsSync(join(dir, 'svc.pid')) || holderOf(dir))) continue
    for (const dir of clusters) {
      const postmaster = runningPostmaster(join(dir, 'postgres'))
      if (postmaster) process.kill(postmaster.pid, 'SIGQUIT')
    }
    rmSync(join(parent, name), { recursive: true, force: true, maxRetries: 10 })
  }
}
