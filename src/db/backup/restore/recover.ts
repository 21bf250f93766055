import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { reasonOf } from '../../../core/errors.ts'
import { type Embedded, startEmbedded } from '../../setup/embedded/embedded.ts'
import { type RecoveryTarget, recoverySettings } from './configuration.ts'

/** `isBeyond`: the log ended before the moment that was wanted. */
export type Reached = { lsn: string | null; at: string | null; isBeyond: boolean }

const NOT_REACHED = /recovery ended before configured recovery target was reached/

/** Runs the unpacked cluster until it has recovered, and leaves it running. Past the end of the log, the end is reached. */
export async function recoverCluster(options: {
  dataDir: string
  binDir: string
  target: RecoveryTarget
  log: (line: string) => void
}): Promise<{ cluster: Embedded; reached: Reached }> {
  const { dataDir, binDir, target, log } = options
  const start = (to: RecoveryTarget): Promise<Embedded> =>
    startEmbedded({ dataDir, binDir, log, settings: recoverySettings(to), isRestoring: true })
  const logFile = join(dataDir, 'postgres.log')
  const before = statSync(logFile, { throwIfNoEntry: false })?.size ?? 0
  let isBeyond = false
  const cluster = await start(target).catch((error: unknown) => {
    if (target.kind !== 'time' || !NOT_REACHED.test(reasonOf(error))) throw error
    isBeyond = true
    return start({ kind: 'end' })
  })
  return { cluster, reached: { ...reachedIn(readFileSync(logFile).subarray(before).toString()), isBeyond } }
}

/** PostgreSQL says in its log where recovery ended. */
function reachedIn(log: string): Pick<Reached, 'lsn' | 'at'> {
  const last = (pattern: RegExp): string | null => [...log.matchAll(pattern)].at(-1)?.[1] ?? null
  return {
    lsn: last(/redo done at ([0-9A-F]+\/[0-9A-F]+)/g),
    at: last(/last completed transaction was at log time (\S+ \S+)/g),
  }
}
