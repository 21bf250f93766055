import { spawn, spawnSync } from 'node:child_process'
import { parse } from 'pg-connection-string'
import { cleanEnv } from '../../setup/embedded/cluster.ts'

/** Definitions of a large schema; rows are not in it. */
const MOST_BYTES = 256 * 2 ** 20

/** Major version of the pg_dump on the path, or undefined. */
export function pgDumpMajor(): number | undefined {
  const { stdout, error } = spawnSync('pg_dump', ['--version'], { encoding: 'utf8' })
  const major = error ? undefined : /\) (\d+)/.exec(stdout)?.[1]
  return major === undefined ? undefined : Number(major)
}

/** The definitions of one section, as of an exported snapshot: plain SQL without lines of psql. */
export async function definitionsOf(
  url: string,
  snapshot: string,
  section: 'pre-data' | 'post-data',
  signal: AbortSignal | undefined,
): Promise<string> {
  const args = [
    `--section=${section}`,
    `--snapshot=${snapshot}`,
    '--no-tablespaces',
    '--no-publications',
    '--no-toast-compression',
  ]
  const child = spawn('pg_dump', [...args, '--no-subscriptions', '--no-password'], {
    cwd: '/',
    env: { ...cleanEnv(), PGAPPNAME: 'svc backup', ...environmentOf(url) },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(signal && { signal }),
  })
  const parts: Buffer[] = []
  let bytes = 0
  let said = ''
  child.stdout.on('data', (part: Buffer) => {
    bytes += part.length
    if (bytes > MOST_BYTES) child.kill()
    else parts.push(part)
  })
  child.stderr.on('data', (part) => {
    said = `${said}${part}`.slice(0, 2000)
  })
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  if (bytes > MOST_BYTES) throw new Error('the definitions of the database are too large')
  if (code !== 0) throw new Error(`pg_dump failed: ${said.trim().replace(/\s+/g, ' ') || `exit code ${code}`}`)
  return withoutRestriction(Buffer.concat(parts).toString('utf8'))
}

/** Not as an argument, which other accounts can read. */
function environmentOf(url: string): Record<string, string> {
  const { host, port, user, password, database, ...more } = parse(url) as Record<string, string | null | undefined>
  const given: Record<string, string | null | undefined> = {
    PGHOST: host,
    PGPORT: port,
    PGUSER: user,
    PGPASSWORD: password,
    PGDATABASE: database,
    PGSSLMODE: new URLSearchParams(url.split('?')[1] ?? '').get('sslmode') ?? more['sslmode'],
    PGSSLROOTCERT: new URLSearchParams(url.split('?')[1] ?? '').get('sslrootcert'),
  }
  const entries = Object.entries(given).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
  return Object.fromEntries(entries.filter(([, value]) => value !== ''))
}

/** Two lines of psql, with a word that nothing else in the text has. */
function withoutRestriction(text: string): string {
  const word = /^\\restrict (\w+)$/m.exec(text)?.[1]
  return word === undefined ? text : text.replace(`\\restrict ${word}`, '').replace(`\\unrestrict ${word}`, '')
}
