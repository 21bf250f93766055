import { setPriority } from 'node:os'
import { niceOfSession, readProcess, setNiceOfSession, titleOf } from '../protocol/local-backend.ts'

/** Backends of PostgreSQL on the machine of this process, by their process numbers. */
export type BackendPriority = {
  /** Processor time so far; undefined where the system does not tell. */
  usedMs(pid: number): number | undefined
  /** Whether it was lowered: the system does not let this account do so to the backends of another one. */
  lower(pid: number, nice: number): boolean
  /** Gives it the share of the processor that this process has; false where that is no larger than others', or not to be passed on. */
  raise(pid: number): boolean
  /** Whether the backend is what it was before. */
  restore(pid: number): boolean
}

/** Each backend is a session of its own, so what counts is the nice value of that. Undefined on other systems. */
export function linuxPriority(): BackendPriority | undefined {
  if (process.platform !== 'linux') return undefined
  const own = niceOfSession(process.pid) ?? 0
  return {
    usedMs: (pid) => {
      const [nanoseconds] = readProcess(pid, 'schedstat')?.split(' ') ?? []
      return nanoseconds === undefined ? undefined : Number(nanoseconds) / 1e6
    },
    lower(pid, nice) {
      if (!setNice(pid, nice)) return false
      setNiceOfSession(pid, nice)
      for (const worker of parallelWorkersOf(pid)) if (setNice(worker, nice)) setNiceOfSession(worker, nice)
      return true
    },
    raise: (pid) => own < 0 && setNiceOfSession(pid, own),
    restore: (pid) => setNice(pid, 0) && setNiceOfSession(pid, 0),
  }
}

/** False where the system does not let this account do so. */
function setNice(pid: number, nice: number): boolean {
  try {
    setPriority(pid, nice)
    return true
  } catch {
    return false
  }
}

function parallelWorkersOf(pid: number): number[] {
  const [, parent] = /^PPid:\t(\d+)/m.exec(readProcess(pid, 'status') ?? '') ?? []
  const children = readProcess(Number(parent), `task/${parent}/children`)?.trim().split(' ') ?? []
  return children.map(Number).filter((child) => titleOf(child).includes(`parallel worker for PID ${pid}`))
}
