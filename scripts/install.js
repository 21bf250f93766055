// Runs before packages are installed, so it imports only Node's own modules.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))
export const log = (line) => console.error(`savanna: ${line}`)

export function fail(line) {
  log(line)
  process.exit(1)
}

/** Runs a child process with the terminal's stderr; exits when it fails. */
export function run(command, args, doing) {
  log(`${doing} …`)
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: ['ignore', 2, 2] })
  if (status !== 0) fail(`${doing}: failed${error ? ` (${error.message})` : ` with exit code ${status}`}`)
}

const packagesIn = (file) => (existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).packages : {})

/** Packages of the lock file that are not installed. Optional ones do not count: they may be for other platforms. */
function missing({ dev }) {
  const installed = packagesIn(`${root}node_modules/.package-lock.json`)
  return Object.entries(packagesIn(`${root}package-lock.json`)).filter(
    ([path, { version, optional, dev: forDevelopment }]) =>
      path !== '' && !optional && (dev || !forDevelopment) && installed[path]?.version !== version,
  )
}

export function ensureInstalled({ dev }) {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (major < 20 || (major === 20 && minor < 19)) fail(`Node 20.19 or newer is needed, this is ${process.version}`)
  if (missing({ dev }).length === 0) return
  const npm = process.env.npm_execpath
  const command = npm?.endsWith('.js') ? [process.execPath, npm] : [process.platform === 'win32' ? 'npm.cmd' : 'npm']
  run(command[0], [...command.slice(1), 'ci', '--include=dev', '--include=optional'], 'installing packages (npm ci)')
}
