// `npm start` on a clean clone: install, build, run. Arguments go to `svc start`.
import { pathToFileURL } from 'node:url'
import { ensureBuilt } from './build.js'
import { root } from './install.js'

await ensureBuilt()
stopWithParent()
// Runs in this process, so that signals and the exit code need no forwarding.
const main = `${root}dist/main.js`
process.argv = [process.execPath, main, 'start', ...process.argv.slice(2)]
await import(pathToFileURL(main).href)

/** Stops with npm's shell, which dies of a SIGTERM without forwarding it. */
function stopWithParent() {
  if (!process.env.npm_lifecycle_event) return
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    process.kill(process.pid, 'SIGTERM')
  }, 200)
  timer.unref()
}
