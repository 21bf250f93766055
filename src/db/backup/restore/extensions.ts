import { chmodSync, existsSync, rmSync } from 'node:fs'
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
  readAddedExtensions,
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

/** What travelled with the backup, and what was added to a PostgreSQL here; where both have a file, that of the backup. */
export function joinExtensions(
  travelled: AddedExtensions | undefined,
  here: AddedExtensions | undefined,
): AddedExtensions | undefined {
  if (!travelled || !here) return travelled ?? here
  return {
    scripts: new Map([...here.scripts, ...travelled.scripts]),
    libraries: new Map([...here.libraries, ...travelled.libraries]),
  }
}

/** Extensions of the backup that neither PostgreSQL nor what is added to it brings. */
export function missingExtensions(
  { extensions = [] }: Pick<BackupDetails, 'extensions'>,
  binaries: Binaries,
  more: AddedExtensions | undefined,
): string[] {
  const available = availableExtensions(binaries)
  if (!available) return []
  const added = more ? namesOf(more) : new Set()
  return extensions.filter((name) => !available.has(name) && !added.has(name))
}

const placeOf = (dataDir: string, major: number): string =>
  extensionsDir(dataDir, accountFor(join(dataDir, 'postgres')), major)

/** What `svc extensions add` has brought to a data directory. */
export const addedExtensions = (dataDir: string, major: number): AddedExtensions | undefined =>
  readAddedExtensions(placeOf(dataDir, major))

export function placeExtensions(dataDir: string, major: number, added: AddedExtensions | undefined): void {
  if (added) keepAddedExtensions(placeOf(dataDir, major), added)
}

/** They may lie outside of the data directory. */
export function removeExtensions(dataDir: string, major: number): void {
  const place = placeOf(dataDir, major)
  // Not writable, so their owner could not remove files from them, unless that is root.
  for (const folder of [place, join(place, 'extension'), join(place, 'lib')]) {
    if (existsSync(folder)) chmodSync(folder, 0o700)
  }
  rmSync(place, { recursive: true, force: true })
}
