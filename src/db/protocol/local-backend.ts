import { readFileSync, writeFileSync } from 'node:fs'

/** A file of /proc/<pid>; undefined where there is no such process, or the system does not tell. */
export function readProcess(pid: number, name: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8')
  } catch {
    return undefined
  }
}

/**
 * Linux shares processors between sessions first (sched(7), "The autogroup feature"), so that a nice value of a process means
 * nothing to other sessions: the session of each has one too. Undefined on a system without them.
 */
export function niceOfSession(pid: number): number | undefined {
  const [, nice] = / nice (-?\d+)$/m.exec(readProcess(pid, 'autogroup') ?? '') ?? []
  return nice === undefined ? undefined : Number(nice)
}

/** False where the system does not let this account do so. */
export function setNiceOfSession(pid: number, nice: number): boolean {
  try {
    writeFileSync(`/proc/${pid}/autogroup`, String(nice))
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' // it ended, or a system without them
  }
}

export const titleOf = (pid: number): string => readProcess(pid, 'cmdline') ?? ''

/**
 * Whether that process is the backend of a connection: `postgres: app: user db host(port) idle`, as it names itself. A database
 * behind a tunnel or in a container has other numbers than the processes here.
 */
export function isBackend(pid: number, user: string, from: string): boolean {
  const title = titleOf(pid)
  return title.startsWith('postgres: ') && title.includes(` ${user} `) && title.includes(from)
}
