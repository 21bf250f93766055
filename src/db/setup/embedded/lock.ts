import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { sleep } from '../../../core/clock.ts'
import { makeDataDir } from './data-dir.ts'
import { hasCode, isAlive, readIfThere, startIdentity } from './process.ts'

/** The server on a data directory. `svc.pid` has these as three lines, so that tools find the pid in the first. */
export type LockHolder = { pid: number; identity: string; url: string }

export type DataLock = {
  /** Stores the URL of this server for the error message of a second one. */
  announce(url: string): void
  release(): void
}

const pidFile = (dataDir: string) => join(dataDir, 'svc.pid')
const lines = (holder: LockHolder) => `${holder.pid}\n${holder.identity}\n${holder.url}\n`

function parse(text: string | undefined): LockHolder | undefined {
  const [pid = '', identity = '', url = ''] = (text ?? '').split('\n')
  return /^\d+$/.test(pid) ? { pid: Number(pid), identity, url } : undefined
}

/** The pid alone is not enough: it may have been reused. */
const isRunning = (holder: LockHolder): boolean =>
  isAlive(holder.pid) && (holder.identity === '' || startIdentity(holder.pid) === holder.identity)

/** The live server on a data directory, if there is one. */
export function holderOf(dataDir: string): LockHolder | undefined {
  const holder = parse(readIfThere(pidFile(dataDir)))
  return holder && isRunning(holder) ? holder : undefined
}

/** One server per data directory; the lock ends with its process, also after a crash. */
export async function lockDataDir(dataDir: string): Promise<DataLock> {
  makeDataDir(dataDir)
  const file = pidFile(dataDir)
  const me: LockHolder = { pid: process.pid, identity: startIdentity(process.pid), url: '' }
  await take(file, me, dataDir)

  const isMine = () => {
    const holder = parse(readIfThere(file))
    return holder?.pid === me.pid && holder.identity === me.identity
  }
  return {
    announce(url) {
      me.url = url
      const next = `${file}.${process.pid}`
      writeFileSync(next, lines(me), { mode: 0o600 })
      renameSync(next, file)
    },
    release() {
      if (isMine()) rmSync(file, { force: true })
    },
  }
}

async function take(file: string, me: LockHolder, dataDir: string): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    if (created(file, me)) return
    const text = readIfThere(file)
    if (text === undefined) continue
    const holder = parse(text)
    if (holder && isRunning(holder)) throw new Error(refusal(dataDir, holder))
    // A file without a pid is either being written or damaged, so wait before removing it.
    if (!holder && attempt < 10) await sleep(20)
    else if (!removeStale(file, text, me)) await sleep(5)
  }
}

function created(file: string, me: LockHolder): boolean {
  try {
    writeFileSync(file, lines(me), { flag: 'wx', mode: 0o600 })
    return true
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false
    throw error
  }
}

/** Two servers may find the same dead holder; the second must not remove the new file of the first. */
function removeStale(file: string, stale: string, me: LockHolder): boolean {
  const takeover = `${file}.takeover`
  if (!created(takeover, me)) {
    const other = parse(readIfThere(takeover))
    if (other && !isRunning(other)) rmSync(takeover, { force: true })
    return false
  }
  if (readIfThere(file) === stale) rmSync(file, { force: true })
  rmSync(takeover, { force: true })
  return true
}

const refusal = (dataDir: string, { pid, url }: LockHolder): string =>
  `the data directory ${resolve(dataDir)} is in use by ${pid === process.pid ? 'this process' : 'another server'} ` +
  `(pid ${pid}${url && `, ${url}`}): stop it first, or choose another data_dir`
