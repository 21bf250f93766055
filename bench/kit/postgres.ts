import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type EmbeddedOptions, startEmbedded } from '../../src/db/setup/embedded/embedded.ts'

/** A PostgreSQL of the benchmark's own, in a new folder that goes with it and has room for more. */
export async function startPostgres({
  settings = {},
  binDir,
}: Partial<Pick<EmbeddedOptions, 'settings' | 'binDir'>> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'))
  const cluster = await startEmbedded({
    dataDir: join(folder, 'pg'),
    log: () => {},
    settings,
    ...(binDir && { binDir }),
  })
  return {
    url: cluster.url,
    /** Of the postmaster. */
    pid: cluster.pid,
    folder,
    async stop(): Promise<void> {
      await cluster.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
