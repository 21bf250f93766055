// Installs PostgreSQL 15 with PostGIS and pgvector for the tests, on Debian 12 as root. PostGIS is a package; pgvector is
// built from the source package of the next release, into a copy of the installation.
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { install, isDebian12, mayInstall, quietly } from './debian.ts'

type Log = (line: string) => void
const installation = '/usr/lib/postgresql/15'

/** Environment for the tests: the `bin` folder, or the reason why there is none. Throws if the build fails. */
export function extensionsPostgres(cacheDir: string, log: Log): Record<string, string> {
  if (!isDebian12) {
    return { SVC_TEST_EXT_REASON: 'PostgreSQL with PostGIS and pgvector is made on Debian 12 only' }
  }
  const prefix = join(isWorldAccessible(dirname(cacheDir)) ? cacheDir : '/var/cache/savanna', 'postgres-15-extensions')
  const binDir = join(prefix, 'lib/postgresql/15/bin')
  if (!existsSync(binDir)) {
    if (!mayInstall) {
      return { SVC_TEST_EXT_REASON: 'PostgreSQL with PostGIS and pgvector can be installed by root only' }
    }
    make(prefix, log)
  }
  return { SVC_TEST_PG_BIN_EXT: binDir }
}

/** Whether other accounts can enter the folder, because PostgreSQL does not run as root. */
function isWorldAccessible(dir: string): boolean {
  if ((statSync(dir).mode & 0o001) === 0) return false
  return dir === dirname(dir) || isWorldAccessible(dirname(dir))
}

function make(prefix: string, log: Log): void {
  log('installing PostgreSQL 15 with PostGIS (apt-get) …')
  if (!existsSync('/usr/share/postgresql-common')) {
    // Prevents the package from creating a cluster and starting it on the standard port.
    mkdirSync('/etc/postgresql-common', { recursive: true })
    writeFileSync('/etc/postgresql-common/createcluster.conf', 'create_main_cluster = false\n')
  }
  install('postgresql-15', 'postgresql-15-postgis-3', 'gcc', 'libc6-dev')
  const work = mkdtempSync(join(tmpdir(), 'svc-pgvector-'))
  try {
    // apt may download as another account, which needs to write here.
    chmodSync(work, 0o777)
    const draft = join(work, 'prefix')
    cpSync(installation, join(draft, 'lib/postgresql/15'), { recursive: true, dereference: true })
    cpSync('/usr/share/postgresql/15', join(draft, 'share/postgresql/15'), { recursive: true, dereference: true })
    log('building pgvector …')
    buildPgvector(work, draft)
    mkdirSync(dirname(prefix), { recursive: true })
    moveWhole(draft, prefix)
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/** Works across file systems; the final name appears only when the copy is complete. */
function moveWhole(from: string, to: string): void {
  const beside = `${to}.${process.pid}`
  cpSync(from, beside, { recursive: true })
  rmSync(to, { recursive: true, force: true })
  renameSync(beside, to)
}

function buildPgvector(work: string, prefix: string): void {
  const headers = join(work, 'headers')
  quietly('apt-get', ['-q', 'download', 'postgresql-server-dev-15'], work)
  quietly('dpkg', ['-x', ...only(work, /^postgresql-server-dev-15_.*\.deb$/), headers], work)

  quietly('apt-get', [...otherRelease(work, 'trixie'), '-q', 'update'], work)
  quietly('apt-get', [...otherRelease(work, 'trixie'), '-q', 'source', '--download-only', 'pgvector'], work)
  quietly('tar', ['-xf', ...only(work, /^pgvector_.*\.orig\.tar\.\w+$/), '--one-top-level=pgvector', '--strip=1'], work)

  const source = join(work, 'pgvector')
  const files = readdirSync(join(source, 'src')).filter((name) => name.endsWith('.c'))
  const optimised = ['-O2', '-ftree-vectorize', '-fassociative-math', '-fno-signed-zeros', '-fno-trapping-math']
  const include = `-I${join(headers, 'usr/include/postgresql/15/server')}`
  quietly('gcc', [...optimised, '-fPIC', include, '-c', ...files], join(source, 'src'))
  const objects = files.map((name) => name.replace(/c$/, 'o'))
  quietly('gcc', ['-shared', '-o', join(prefix, 'lib/postgresql/15/lib/vector.so'), ...objects], join(source, 'src'))

  const control = readFileSync(join(source, 'vector.control'), 'utf8')
  const version = control.match(/default_version = '(.+)'/)?.[1]
  const extensions = join(prefix, 'share/postgresql/15/extension')
  writeFileSync(join(extensions, 'vector.control'), control)
  cpSync(join(source, 'sql/vector.sql'), join(extensions, `vector--${version}.sql`))
}

function only(dir: string, pattern: RegExp): [string] {
  const [name] = readdirSync(dir).filter((entry) => pattern.test(entry))
  if (name === undefined) throw new Error(`nothing like ${pattern} was downloaded`)
  return [name]
}

/** apt options that use only the sources of another release, from this machine's mirror. */
function otherRelease(work: string, release: string): string[] {
  const state = join(work, 'apt')
  const sources = join(state, 'sources')
  if (!existsSync(sources)) {
    for (const dir of [sources, join(state, 'lists/partial'), join(state, 'cache/archives/partial')]) {
      mkdirSync(dir, { recursive: true })
    }
    const targets = ['--format', '$(SITE)', 'Created-By: Packages', 'Release: bookworm', 'Component: main']
    const [site] = quietly('apt-get', ['indextargets', ...targets]).split('\n')
    const signed = '[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
    writeFileSync(join(sources, 'other.list'), `deb-src ${signed} ${site} ${release} main\n`)
  }
  return [
    ...['-o', `Dir::Etc::sourcelist=/dev/null`, '-o', `Dir::Etc::sourceparts=${sources}`],
    ...['-o', `Dir::State::lists=${join(state, 'lists')}`, '-o', `Dir::Cache=${join(state, 'cache')}`],
    ...['-o', 'APT::Sandbox::User=root'],
  ]
}
