import { createHash, randomBytes } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { SystemAccount } from './account.ts'
import type { Binaries } from './binaries.ts'

/** Extensions outside of PostgreSQL's own folders can be loaded since this version (`extension_control_path`). */
export const FIRST_WITH_OWN_EXTENSIONS = 18

/**
 * Where the files of added extensions are. PostgreSQL of another account than ours cannot enter the data directory (0700), so
 * they are then in a folder that root alone may write to.
 */
export function extensionsDir(dataDir: string, account: SystemAccount, major: number): string {
  if (!account) return join(dataDir, 'extensions', String(major))
  const name = createHash('sha256').update(realpathSync(dataDir)).digest('hex').slice(0, 16)
  return join('/var/lib/savanna/extensions', name, String(major))
}

/** Settings of PostgreSQL that make it find them; none where there are none. */
export function extensionSettings(dir: string, major: number): Record<string, string> {
  // A colon separates folders in both lists.
  if (major < FIRST_WITH_OWN_EXTENSIONS || dir.includes(':') || !existsSync(join(dir, 'extension'))) return {}
  return { extension_control_path: `$system:${dir}`, dynamic_library_path: `$libdir:${join(dir, 'lib')}` }
}

/** Names of the extensions that these binaries bring; undefined where their folder is not found. */
export function availableExtensions({ dir, major }: Binaries): Set<string> | undefined {
  const folders = ['../share/postgresql', '../share', `../../../../share/postgresql/${major}`]
  const found = folders.map((folder) => join(dir, folder, 'extension')).find((folder) => existsSync(folder))
  return found === undefined ? undefined : controlled(readdirSync(found))
}

const controlled = (files: readonly string[]): Set<string> =>
  new Set(files.flatMap((file) => /^([a-z0-9_-]+)\.control$/.exec(file)?.[1] ?? []))

/** Everything that was added to a PostgreSQL, to go into its backup; undefined where nothing was. */
export function readAddedExtensions(dir: string): AddedExtensions | undefined {
  if (!existsSync(join(dir, 'extension'))) return undefined
  const filesIn = (folder: string): Map<string, Buffer> => {
    const names = existsSync(join(dir, folder)) ? readdirSync(join(dir, folder)) : []
    return new Map(names.filter(isFileName).map((name) => [name, readFileSync(join(dir, folder, name))]))
  }
  return { scripts: filesIn('extension'), libraries: filesIn('lib') }
}

export const isFileName = (name: string): boolean => /^[A-Za-z0-9_][\w.+-]{0,200}$/.test(name)

export type AddedExtensions = Pick<ExtensionFiles, 'scripts' | 'libraries'>
export const namesOf = ({ scripts }: AddedExtensions): Set<string> => controlled([...scripts.keys()])

/** As they were beside another cluster. */
export const keepAddedExtensions = (dir: string, added: AddedExtensions): void =>
  keepExtension(dir, { ...added, name: '', version: '' })

/** The files of one extension: control file and scripts, and its library where it has one. */
export type ExtensionFiles = {
  readonly name: string
  readonly version: string
  readonly scripts: ReadonlyMap<string, Buffer>
  readonly libraries: ReadonlyMap<string, Buffer>
}

/** All or nothing: each file appears whole, the control file last. Not writable, not even by the account that PostgreSQL may share. */
export function keepExtension(dir: string, { name, scripts, libraries }: ExtensionFiles): void {
  const folders = [dir, join(dir, 'extension'), join(dir, 'lib')]
  mkdirSync(dir, { recursive: true, mode: 0o755 })
  for (const folder of folders) {
    mkdirSync(folder, { recursive: true })
    chmodSync(folder, 0o755)
  }
  const control = `${name}.control`
  try {
    for (const [file, bytes] of libraries) put(join(dir, 'lib'), file, bytes, 0o555)
    const others = [...scripts].filter(([file]) => file !== control)
    for (const [file, bytes] of others) put(join(dir, 'extension'), file, bytes, 0o444)
    const bytes = scripts.get(control)
    if (bytes) put(join(dir, 'extension'), control, bytes, 0o444)
  } finally {
    for (const folder of folders) chmodSync(folder, 0o555)
  }
}

function put(folder: string, file: string, bytes: Buffer, mode: number): void {
  const draft = join(folder, `.${randomBytes(6).toString('hex')}`)
  try {
    writeFileSync(draft, bytes, { flag: 'wx', mode })
    chmodSync(draft, mode)
    renameSync(draft, join(folder, file))
  } finally {
    rmSync(draft, { force: true })
  }
}
