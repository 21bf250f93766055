import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { type Embedded, startEmbedded } from '../../src/db/setup/embedded/embedded.ts'
import { batchesOf, PURE } from './batches.ts'
import { bundleDashboard, bundleServer, bundleTests } from './bundle.ts'
import { ensurePrograms } from './debian.ts'
import { extensionsPostgres } from './extensions-postgres.ts'
import { longestFirst, readTimes, writeTimes } from './order.ts'
import { runBatch } from './report.ts'
import { scratchFolder } from './scratch.ts'

export type Run = { root: string; log(line: string): void; words: string[]; faultRounds: number; long: boolean }

/** Runs the test files whose path contains one of the words. Returns the exit code. */
export async function runTests({ root, log, words, faultRounds, long }: Run): Promise<number> {
  const files = filesIn(root, /\.test\.ts$/).filter(
    (file) => file.includes('/long/') === long && (words.length === 0 || words.some((word) => file.includes(word))),
  )
  if (files.length === 0) {
    log(`no test file contains ${words.join(' or ')}`)
    return 1
  }
  const texts = new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]))
  const mention = (word: string) => [...texts.values()].some((text) => text.includes(word))
  ensurePrograms(['chromium', 'pgbouncer'].filter(mention), log)
  const extensions = mention(`'extensions'`) ? extensionsPostgres(join(root, '.cache'), log) : {}

  const scratch = scratchFolder()
  const clusters: Embedded[] = []
  const interrupted = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort())
  try {
    const start = async (name: string, binDir?: string): Promise<string> => {
      const dataDir = join(scratch, name)
      const cluster = await startEmbedded({ dataDir, ...(binDir && { binDir }), log, settings: forTests })
      clusters.push(cluster)
      if (name === 'pg') process.env['SVC_TEST_PG_MAJOR'] = String(Number.parseInt(cluster.version, 10))
      return cluster.url
    }
    const build = join(scratch, 'build')
    const code = join(build, 'tests')
    const batches = batchesOf(texts)
    if (mention('openDashboard')) process.env['SVC_TEST_DASHBOARD'] = await bundleDashboard(root, build)
    await bundleTests(root, code, { batches, programs: filesIn(root, PROGRAM) })
    // The environment of the tests. One cluster of each kind serves the whole run.
    Object.assign(process.env, extensions, { TMPDIR: scratch, SVC_TEST_CODE: code, FAULT_ROUNDS: String(faultRounds) })
    if (![...batches.keys()].every((name) => name === PURE)) {
      const [main, pg] = await Promise.all([bundleServer(root, build), start('pg', process.env['SVC_TEST_PG_BIN'])])
      Object.assign(process.env, { SVC_TEST_MAIN: main, SVC_TEST_PG: pg })
    }
    const binDir = extensions['SVC_TEST_PG_BIN_EXT']
    if (binDir) process.env['SVC_TEST_PG_EXT'] = await start('pg-extensions', binDir)

    const timesFile = join(root, '.cache/test-times.json')
    const times = readTimes(timesFile)
    const { seconds, passed } = await runBatch({
      root,
      code,
      files: longestFirst(batches, times).map((name) => join(code, `${name}.js`)),
      // More than cores, because test files wait about half of their time.
      concurrency: availableParallelism() + 4,
      // Per file: fault tests take minutes on a busy machine.
      timeoutMs: 600_000 * faultRounds,
      signal: interrupted.signal,
    })
    const named = [...seconds].map(([file, s]) => [relative(code, file).replace(/\.js$/, ''), s] as const)
    writeTimes(timesFile, new Map([...times, ...named]))
    const crashes = ['pg', 'pg-extensions'].flatMap((name) => crashesOf(join(scratch, name, 'postgres.log')))
    for (const line of crashes) log(`PostgreSQL of the tests crashed: ${line}`)
    return passed && crashes.length === 0 && !interrupted.signal.aborted ? 0 : 1
  } finally {
    for (const cluster of clusters) await cluster.stop()
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** With the statement of the process, if its log has it. No test may end a process of the clusters that all share. */
function crashesOf(logFile: string): string[] {
  if (!existsSync(logFile)) return []
  const lines = readFileSync(logFile, 'utf8').split('\n')
  return lines.flatMap((line, i) => (/was terminated by|PANIC:/.test(line) ? [lines.slice(i, i + 2).join(' ')] : []))
}

/** Many files share a cluster whose data is temporary, so durability is off. */
const forTests = {
  max_connections: '400',
  fsync: 'off',
  full_page_writes: 'off',
  synchronous_commit: 'off',
  shared_buffers: '256MB',
  autovacuum_naptime: '1h',
  max_wal_size: '8GB',
  jit: 'off',
}

/** Helper programs that tests start. */
const PROGRAM = /-(owner|process|victim)\.ts$/

const filesIn = (root: string, pattern: RegExp): string[] =>
  ['src', 'test', 'client', 'dashboard']
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((f) => join(folder, f)),
    )
    .filter((file) => pattern.test(file))
    .sort()
