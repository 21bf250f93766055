import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { accountFor } from '../../setup/embedded/account.ts'
import type { Binaries } from '../../setup/embedded/binaries.ts'
import {
  type AddedExtensions,
  availableExtensions,
  extensionsDir,
  isFileName,
  keepAddedExtensions,
  namesOf,
} from '../../setup/embedded/extensions.ts'
import { type BackupDetails, PLATFORM } from '../stored/records.ts'
import { SealError } from '../stored/seal.ts'
import type { StoredBackup } from '../stored/stored-backup.ts'

export const EXTENSIONS = 'extensions'
const MOST_BYTES = 512 * 2 ** 20

type StoredFile = { path: string; base64: string }

/** Files of extensions as one object of a backup. */
export function extensionsText({ scripts, libraries }: AddedExtensions): string {
  const listed = (folder: string, files: ReadonlyMap<string, Buffer>): StoredFile[] =>
    [...files].map(([name, bytes]) => ({ path: `${folder}/${name}`, base64: bytes.toString('base64') }))
  return JSON.stringify([...listed('extension', scripts), ...listed('lib', libraries)])
}

/** What travelled with a backup of the same kind of machine. */
export async function travelledExtensions(stored: StoredBackup): Promise<AddedExtensions | undefined> {
  const { objects, platform } = stored.details
  if (!objects.includes(EXTENSIONS) || platform !== PLATFORM) return undefined
  const [scripts, libraries] = [new Map<string, Buffer>(), new Map<string, Buffer>()]
  for (const { path, base64 } of JSON.parse(await stored.text(EXTENSIONS, MOST_BYTES)) as StoredFile[]) {
    const [, folder, name = ''] = /^(extension|lib)\/([^/]+)$/.exec(path) ?? []
    if (folder === undefined || !isFileName(name)) {
      throw new SealError(`the backup has a file outside of its folder: ${JSON.stringify(path.slice(0, 200))}`)
    }
    const files = folder === 'lib' ? libraries : scripts
    files.set(name, Buffer.from(base64, 'base64'))
  }
  return { scripts, libraries }
}

/** Extensions of the backup that neither PostgreSQL nor the backup brings. */
export function missingExtensions(
  { extensions = [] }: Pick<BackupDetails, 'extensions'>,
  binaries: Binaries,
  travelled: AddedExtensions | undefined,
): string[] {
  const available = availableExtensions(binaries)
  if (!available) return []
  const added = travelled ? namesOf(travelled) : new Set()
  return extensions.filter((name) => !available.has(name) && !added.has(name))
}

const placeOf = (dataDir: string, major: number): string =>
  extensionsDir(dataDir, accountFor(join(dataDir, 'postgres')), major)

export function placeExtensions(dataDir: string, major: number, travelled: AddedExtensions | undefined): void {
  if (travelled) keepAddedExtensions(placeOf(dataDir, major), travelled)
}

/** They may lie outside of the data directory. */
export function removeExtensions(dataDir: string, major: number): void {
  rmSync(placeOf(dataDir, major), { recursive: true, force: true })
}
