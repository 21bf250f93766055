// `npm start` on a clean clone: install, build, run. Arguments go to `svc start`.
import { pathToFileURL } from 'node:url'
import { ensureBuilt } from './build.js'
import { root } from './install.js'

await ensureBuilt()
stopWithParent()
// In this process rather than in a child, so that signals and the exit code need no passing on.
const main = `${root}dist/main.js`
process.argv = [process.execPath, main, 'start', ...process.argv.slice(2)]
await import(pathToFileURL(main).href)

/** npm passes a SIGTERM on to its shell, which dies of it and tells nobody. */
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
