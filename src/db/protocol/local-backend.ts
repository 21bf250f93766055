import { readFileSync } from 'node:fs'

/** A file of /proc/<pid>; undefined where there is no such process, or the system does not tell. */
export function readProcess(pid: number, name: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8')
  } catch {
    return undefined
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
