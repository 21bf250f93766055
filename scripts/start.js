// `npm start` on a clean clone: install, build, run. Arguments go to `svc start`.
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { ensureBuilt } from './build.js'
import { root } from './install.js'

await ensureBuilt()
stopWithParent()
// Runs in this process, so that signals and the exit code need no forwarding.
const main = `${root}dist/main.js`
process.argv = [process.execPath, main, 'start', ...process.argv.slice(2)]
await import(pathToFileURL(main).href)

/** Stops with npm, and with its shell, which dies of a SIGTERM without forwarding it. */
function stopWithParent() {
  if (!process.env.npm_lifecycle_event) return
  const parent = process.ppid
  const npm = parentOf(parent)
  const timer = setInterval(() => {
    if (process.ppid === parent && parentOf(parent) === npm) return
    clearInterval(timer)
    process.kill(process.pid, 'SIGTERM')
  }, 200)
  timer.unref()
}

/** Of a shell between npm and this process; undefined where the system does not say, or the parent is no shell. */
function parentOf(pid) {
  try {
    const [, name, ppid] = /^\d+ \((.*)\) \S (\d+)/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? []
    return /^(sh|dash|bash)$/.test(name) ? ppid : undefined
  } catch {
    return undefined
  }
}
