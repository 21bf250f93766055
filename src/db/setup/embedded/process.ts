import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const errorCode = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''

export const hasCode = (error: unknown, ...codes: string[]): boolean => codes.includes(errorCode(error))

/** `undefined` when there is no such file; every other failure is thrown. */
export function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ENOTDIR', 'ESRCH')) return undefined
    throw error
  }
}

/** Fields of /proc/<pid>/stat after the command name, which may contain spaces and brackets. */
function statFields(pid: number): string[] | undefined {
  const text = readIfThere(`/proc/${pid}/stat`)
  return text?.slice(text.lastIndexOf(')') + 2).split(' ')
}

/** A zombie counts as dead, because it stays for ever where pid 1 (of a container) does not reap orphans. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch (error) {
    return hasCode(error, 'EPERM')
  }
  return process.platform !== 'linux' || statFields(pid)?.[0] !== 'Z'
}

/** Distinguishes a process from a later one with the same pid; empty where the system offers nothing. */
export function startIdentity(pid: number): string {
  if (process.platform === 'linux') {
    const startTicks = statFields(pid)?.[19]
    return startTicks ? `${readIfThere('/proc/sys/kernel/random/boot_id')?.trim()}:${startTicks}` : ''
  }
  if (process.platform === 'win32') return ''
  return spawnSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).stdout?.trim() ?? ''
}
