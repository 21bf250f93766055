// `npm start` on a clean clone: install, build, run. Arguments go to `svc start`.
import { pathToFileURL } from 'node:url'
import { ensureBuilt } from './build.js'
import { root } from './install.js'

ensureBuilt()
// In this process rather than in a child, so that signals and the exit code need no passing on.
const main = `${root}dist/main.js`
process.argv = [process.execPath, main, 'start', ...process.argv.slice(2)]
await import(pathToFileURL(main).href)
