import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { reasonOf } from '../../core/errors.ts'
import { openConnection } from '../../db/protocol/driver.ts'
import { accountFor } from '../../db/setup/embedded/account.ts'
import { startEmbedded } from '../../db/setup/embedded/embedded.ts'
import { type ExtensionFiles, extensionSettings, keepExtension } from '../../db/setup/embedded/extensions.ts'

/** Loads the extension in a cluster that is thrown away, so that what cannot be loaded never reaches the real one. */
export async function tryOut(files: ExtensionFiles, binDir: string, major: number): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-extension-'))
  const isOther = accountFor(join(dataDir, 'postgres')) !== undefined
  const dir = isOther ? mkdtempSync(join(tmpdir(), 'svc-extension-files-')) : join(dataDir, 'extensions')
  try {
    keepExtension(dir, files)
    const cluster = await startEmbedded({ dataDir, binDir, log: () => {}, settings: extensionSettings(dir, major) })
    try {
      const client = await openConnection({ url: cluster.url })
      try {
        await client.query(`create extension "${files.name}" cascade`)
      } finally {
        await client.end().catch(() => {})
      }
    } finally {
      await cluster.stop()
    }
  } catch (error) {
    throw new Error(`${files.name} ${files.version} cannot be loaded: ${explained(reasonOf(error), major)}`, {
      cause: error,
    })
  } finally {
    for (const folder of [dataDir, dir]) rmSync(folder, { recursive: true, force: true })
  }
}

/** PostgreSQL's message, in words of what is wrong with the file. */
function explained(message: string, major: number): string {
  const glibc = /version [`']?(GLIBC_[\d.]+)'? not found/.exec(message)?.[1]
  if (glibc)
    return `it was made for a newer C library than this machine has (${glibc} not found); take the package of this release`
  if (/incompatible library|version mismatch|missing magic block/.test(message))
    return `it was made for another PostgreSQL than ${major}`
  if (
    /wrong ELF class|invalid ELF header|file too short|cannot enable executable|ELF file|cannot open shared object/i.test(
      message,
    )
  ) {
    return 'its library is damaged or for another processor'
  }
  if (/undefined symbol/.test(message))
    return `it was made for another PostgreSQL than ${major} (${message.replace(/^.*undefined symbol/, 'undefined symbol')})`
  return message
}
