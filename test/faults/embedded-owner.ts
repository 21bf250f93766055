// A server reduced to its PostgreSQL: starts it, says where it is on one line, and lives until it is killed.
// argv: data directory, then optionally a bin folder and the uid to become first.
import { startEmbedded } from '../../src/db/setup/embedded/embedded.ts'

const [dataDir = '', binDir, uid] = process.argv.slice(2)
if (uid) {
  process.setgroups?.([])
  process.setgid?.(Number(uid))
  process.setuid?.(Number(uid))
}
try {
  const { url, pid, adopted, lock } = await startEmbedded({ dataDir, ...(binDir && { binDir }), log: () => {} })
  lock.announce('http://127.0.0.1:8090')
  console.log(JSON.stringify({ url, pid, adopted }))
  setInterval(() => {}, 60_000)
} catch (error) {
  console.log(JSON.stringify({ refused: error instanceof Error ? error.message : String(error) }))
}
