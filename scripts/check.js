// `npm run check`: static checks: types, lint and format, dead code, guards.
import { spawnSync } from 'node:child_process'
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
  ['guards', process.execPath, 'scripts/test.js', 'test/guards/'],
]
const failed = checks.filter(([name, command, ...args]) => {
  log(`${name} …`)
  return spawnSync(command, args, { cwd: root, stdio: 'inherit', shell: process.platform === 'win32' }).status !== 0
})
if (failed.length > 0) {
  log(`failed: ${failed.map(([name]) => name).join(', ')}`)
  process.exitCode = 1
} else log('all checks passed')
