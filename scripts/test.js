// `npm test [-- words]`: installs what is missing, then runs the test files whose path contains one of the words.
import { ensureInstalled, root, say } from './install.js'

ensureInstalled({ dev: true })
const { register } = await import('tsx/esm/api')
register()
const { runTests } = await import('./tests/run.ts')
process.exitCode = await runTests({ root, say, words: process.argv.slice(2) })
