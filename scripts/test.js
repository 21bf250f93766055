// `npm test [-- words]`: installs what is missing, then runs the test files whose path contains one of the words.
import { parseArgs } from 'node:util'
import { ensureInstalled, log, root } from './install.js'

const options = {
  'fault-rounds': { type: 'string', default: '1' },
  // Files in a folder `long` take minutes or fetch other runtimes, so they run only with this.
  long: { type: 'boolean', default: false },
}
const { values, positionals: words } = parseArgs({ options, allowPositionals: true })
ensureInstalled({ dev: true })
const { register } = await import('tsx/esm/api')
register()
const { runTests } = await import('./tests/run.ts')
process.exitCode = await runTests({ root, log, words, faultRounds: Number(values['fault-rounds']), long: values.long })
