import { spawn } from 'node:child_process'
import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { reasonOf } from '../../core/errors.ts'
import { TarParser } from '../../db/backup/stored/tar.ts'
import type { ExtensionFiles } from '../../db/setup/embedded/extensions.ts'

/** More than any extension has. */
const MAX_BYTES = 512 * 1024 * 1024
const MAX_ENTRIES = 20_000

type Found = { readonly path: string; readonly bytes: Buffer }

/** Whether a file can be one of this extension's, by its name. */
const isWanted = (name: string, file: string): boolean =>
  file === `${name}.control` ||
  (file.startsWith(`${name}--`) && file.endsWith('.sql')) ||
  /\.(so|dylib|dll)$/.test(file)

/** The files of an extension in a package or a folder. Nothing is written, and no path of it is used. */
export async function readExtension(name: string, from: string, major: number): Promise<ExtensionFiles> {
  const stat = lstatSync(from, { throwIfNoEntry: false })
  if (!stat) throw new Error(`there is no ${from}`)
  const found = stat.isDirectory() ? inFolder(name, from) : await inPackage(name, from)
  return chosen(name, found, major, from)
}

function inFolder(name: string, from: string): Found[] {
  const found: Found[] = []
  let total = 0
  const entries = readdirSync(from, { recursive: true, encoding: 'utf8' })
  if (entries.length > MAX_ENTRIES) throw new Error(`${from} has too many files for an extension`)
  for (const path of entries) {
    if (!isWanted(name, basename(path))) continue
    const stat = lstatSync(join(from, path))
    if (stat.isSymbolicLink()) throw new Error(`${from} has a link where a file is expected: ${path}`)
    if (!stat.isFile()) continue
    total += stat.size
    if (total > MAX_BYTES) throw new Error(`${from} is too large for an extension`)
    found.push({ path, bytes: readFileSync(join(from, path)) })
  }
  return found
}

/** Through dpkg-deb, which only takes the outer archive apart; entries are judged here. */
async function inPackage(name: string, from: string): Promise<Found[]> {
  const found: Found[] = []
  let total = 0
  let count = 0
  let kept: Buffer[] | undefined
  let path = ''
  const parser = new TarParser({
    onEntry: (entry) => {
      path = entry.name
      if (++count > MAX_ENTRIES) throw new Error('it has too many files')
      if (path.startsWith('/') || path.split('/').includes('..'))
        throw new Error(`it has a path that leads out of it: ${path}`)
      if (entry.type === 'link' || entry.type === 'other') throw new Error(`it has a link or a device: ${path}`)
      total += entry.size
      if (total > MAX_BYTES) throw new Error('it is too large')
      kept = entry.type === 'file' && isWanted(name, basename(path)) ? [] : undefined
    },
    onBytes: (bytes) => void kept?.push(Buffer.from(bytes)),
    onEntryEnd: () => {
      if (kept) found.push({ path, bytes: Buffer.concat(kept) })
      kept = undefined
    },
  })
  const child = spawn('dpkg-deb', ['--fsys-tarfile', from], { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  child.stderr.on('data', (chunk) => {
    said = `${said}${chunk}`.slice(0, 2_000)
  })
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  try {
    const reading = (async () => {
      for await (const chunk of child.stdout) await parser.write(chunk as Buffer)
    })()
    const [code] = await Promise.all([ended, reading])
    if (code !== 0) throw new Error(said.trim().split('\n')[0] || `dpkg-deb ended with ${code}`)
    await parser.end()
    return found
  } catch (error) {
    child.kill()
    throw new Error(`the package ${from} is refused: ${reasonOf(error)}`, { cause: error })
  }
}

/** Of several copies the one for this PostgreSQL. */
function chosen(name: string, found: readonly Found[], major: number, from: string): ExtensionFiles {
  const forMajor = found.filter(({ path }) => path.split('/').includes(String(major)))
  const files = forMajor.length > 0 ? forMajor : found
  const byName = new Map<string, Buffer>()
  for (const { path, bytes } of files) {
    const file = basename(path)
    const known = byName.get(file)
    if (known && !known.equals(bytes)) throw new Error(`${from} has two files ${file} that differ`)
    byName.set(file, bytes)
  }
  const control = byName.get(`${name}.control`)
  if (!control) throw new Error(`${from} has no ${name}.control: it is not the extension ${name}`)
  const text = control.toString('utf8')
  const version = /^\s*default_version\s*=\s*'([^']+)'/m.exec(text)?.[1]
  if (version === undefined) throw new Error(`${name}.control of ${from} names no default_version`)
  if (/^\s*directory\s*=/m.test(text)) throw new Error(`${name}.control of ${from} names a folder of its own`)
  const scripts = new Map([...byName].filter(([file]) => !/\.(so|dylib|dll)$/.test(file)))
  if (scripts.size < 2) throw new Error(`${from} has no script ${name}--${version}.sql`)
  const module = /^\s*module_pathname\s*=\s*'\$libdir\/([\w.-]+)'/m.exec(text)?.[1]
  const libraries = new Map(
    [...byName].filter(([file]) => module !== undefined && file.replace(/\.(so|dylib|dll)$/, '') === module),
  )
  if (module !== undefined && libraries.size === 0) throw new Error(`${from} has no library ${module}`)
  return { name, version, scripts, libraries }
}
