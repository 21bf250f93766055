import { isNearby } from '../../db/protocol/hosts.ts'
import { readProcess, setNiceOfSession } from '../../db/protocol/local-backend.ts'

/** Nine times the share of the processor that other sessions have. */
const SESSION_NICE = -10

/**
 * Linux shares processors between sessions first (sched(7), "The autogroup feature"), and each backend of PostgreSQL is one:
 * with ten of them at work on this machine, the one process that serves all callers waits behind each. In `npm run bench storm`
 * p99 of ordinary calls is 102 ms with it and 347 without. Only for a server with a session of its own, as a service has: other
 * programs of a terminal are not its business. Root may do so; without the right, and where control groups share the
 * processors, nothing changes.
 */
export function raiseSessionShare(databaseUrl: string): void {
  const isLocal = databaseUrl === '' || isNearby(databaseUrl)
  if (process.platform !== 'linux' || !isLocal || !hasOwnSession()) return
  setNiceOfSession(process.pid, SESSION_NICE)
}

/** Behind the name in parentheses: state, parent, group, session (proc(5)). */
function hasOwnSession(): boolean {
  const [, , , session] =
    readProcess(process.pid, 'stat')
      ?.replace(/^.*\) /s, '')
      .split(' ') ?? []
  return session === String(process.pid)
}
