import { isAlive } from './process.ts'

export type Supervisor = { readonly pid: number; end(): Promise<void> }

/** Restarts PostgreSQL when its postmaster has ended (the out-of-memory killer, an operator's mistake). */
export function supervise(first: number, restart: () => Promise<number>, log: (line: string) => void): Supervisor {
  let pid = first
  let ended = false
  let restarting: Promise<void> = Promise.resolve()
  let timer = setTimeout(check, 100).unref()

  function check(): void {
    restarting = isAlive(pid) ? Promise.resolve() : restartAfterPause()
    void restarting.then(() => {
      if (!ended) timer = setTimeout(check, 100).unref()
    })
  }
  let pause = 0
  async function restartAfterPause(): Promise<void> {
    log(`PostgreSQL (pid ${pid}) ended unexpectedly; starting it again`)
    await new Promise((resolve) => setTimeout(resolve, pause))
    pause = Math.min(5_000, pause * 2 + 200)
    if (ended) return
    try {
      pid = await restart()
      pause = 0
    } catch (error) {
      log(error instanceof Error ? error.message : String(error))
    }
  }
  return {
    get pid() {
      return pid
    },
    async end() {
      ended = true
      clearTimeout(timer)
      await restarting
    },
  }
}
