// `npm run check`: static checks: types, lint and format, dead code, guards. `--without-guards` where all tests follow.
import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { ensureInstalled, log, root } from './install.js'

ensureInstalled({ dev: true })
const bin = (name) => `${root}node_modules/.bin/${name}`
const checks = [
  ['types', bin('tsc'), '-p', 'tsconfig.json'],
  ['types of browser code', bin('tsc'), '-p', 'src/pages'],
  ['types of the client', bin('tsc'), '-p', 'client'],
  ['types of its tests, and what the compiler must find', bin('tsc'), '-p', 'client/test'],
  ['types of the dashboard', bin('tsc'), '-p', 'dashboard'],
  ['types of its tests', bin('tsc'), '-p', 'dashboard/test'],
  ['types of the examples', bin('tsc'), '-p', 'examples'],
  ['lint and format', bin('biome'), 'check', '--error-on-warnings'],
  ['dead code', bin('knip')],
  ['code that only tests use', bin('knip'), '--production', '--config', 'knip.production.jsonc'],
  ...(process.argv.includes('--without-guards')
    ? []
    : [['guards', process.execPath, 'scripts/test.js', 'test/guards/']]),
]

/** Prints what the check printed once it has ended, so that the output of two does not mix. */
function passes([name, command, ...args]) {
  const child = spawn(command, args, { cwd: root, shell: process.platform === 'win32' })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text))
  return new Promise((resolve) => {
    child.on('error', (error) => (output += `${error.message}\n`))
    child.on('close', (code) => {
      log(`${name}: ${code === 0 ? 'passed' : 'FAILED'}`)
      if (output) process.stdout.write(output)
      resolve(code === 0)
    })
  })
}

const [waiting, failed] = [[...checks], []]
async function work() {
  for (let check = waiting.shift(); check; check = waiting.shift()) if (!(await passes(check))) failed.push(check[0])
}
await Promise.all(Array.from({ length: availableParallelism() }, work))
if (failed.length > 0) {
  log(`failed: ${failed.join(', ')}`)
  process.exitCode = 1
} else log('all checks passed')
