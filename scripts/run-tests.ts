import { spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Embedded, startEmbedded } from '../src/db/setup/embedded/embedded.ts'
import { holderOf } from '../src/db/setup/embedded/lock.ts'
import { runningPostmaster } from '../src/db/setup/embedded/postmaster.ts'
import { ensurePrograms } from './debian.ts'
import { extensionsPostgres } from './extensions-postgres.ts'
import { prepareCode } from './typescript/test-code.ts'

export type Run = { root: string; say(line: string): void; words: string[] }

/** Tests look for their PostgreSQL in the environment; one cluster of each kind serves the whole run. */
export async function runTests({ root, say, words }: Run): Promise<number> {
  const files = testFiles(root).filter((file) => words.length === 0 || words.some((word) => file.includes(word)))
  if (files.length === 0) {
    say(`no test file contains ${words.join(' or ')}`)
    return 1
  }
  const env: NodeJS.ProcessEnv = { ...process.env }
  const texts = files.map((file) => readFileSync(join(root, file), 'utf8'))
  const mention = (word: string) => texts.some((text) => text.includes(word))
  ensurePrograms(['chromium', 'pgbouncer'].filter(mention), say)
  if (mention(`'extensions'`)) Object.assign(env, extensionsPostgres(join(root, '.cache'), say))

  const scratch = scratchFolder()
  env['TMPDIR'] = scratch
  const clusters: Embedded[] = []
  try {
    const start = async (name: string, binDir?: string): Promise<string> => {
      const dataDir = join(scratch, name)
      const cluster = await startEmbedded({ dataDir, ...(binDir && { binDir }), log: say, settings: forTests })
      clusters.push(cluster)
      return cluster.url
    }
    Object.assign(env, await prepareCode(root, scratch))
    env['SVC_TEST_PG'] = await start('pg')
    const binDir = env['SVC_TEST_PG_BIN_EXT']
    if (binDir) env['SVC_TEST_PG_EXT'] = await start('pg-extensions', binDir)
    return await runNode(root, files, env)
  } finally {
    for (const cluster of clusters) await cluster.stop()
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** Many files share a cluster, and its data is thrown away: no file waits for a disk. */
const forTests = {
  max_connections: '400',
  fsync: 'off',
  full_page_writes: 'off',
  synchronous_commit: 'off',
  shared_buffers: '256MB',
}

const testFiles = (root: string): string[] =>
  ['src', 'test']
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((f) => join(folder, f)),
    )
    .filter((file) => file.endsWith('.test.ts'))
    .sort()

/** A run that was killed leaves its clusters running. */
function removeRemains(parent: string): void {
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

const prefix = 'svc-tests-'

/** In memory where there is room: a hundred databases are made and dropped in a run. */
function scratchFolder(): string {
  const parent = hasRoom('/dev/shm') ? '/dev/shm' : tmpdir()
  removeRemains(parent)
  const folder = mkdtempSync(join(parent, prefix))
  // As root, PostgreSQL and the peers of some tests run under other accounts and have to pass.
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

async function runNode(root: string, files: string[], env: NodeJS.ProcessEnv): Promise<number> {
  const options = [
    '--enable-source-maps',
    '--test',
    '--test-reporter=spec',
    // Of a whole file: a busy machine takes minutes for what kills servers again and again.
    '--test-timeout=600000',
    `--test-concurrency=${Math.max(2, availableParallelism())}`,
  ]
  const child = spawn(process.execPath, ['--import', './scripts/typescript/register.js', ...options, ...files], {
    cwd: root,
    env,
    stdio: 'inherit',
  })
  // The runner ends its files and reports; the clusters go after it.
  const stop = (signal: NodeJS.Signals) => child.kill(signal)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, stop)
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  return code ?? 1
}
