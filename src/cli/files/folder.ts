import { createHash } from 'node:crypto'
import { createReadStream, type Dirent } from 'node:fs'
import { readdir, realpath, stat } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { causeOf } from '../command/system-error.ts'

export type LocalFile = { path: string; from: string; size: number; sha256: string }
type LeftOut = { path: string; why: string }

/** Certificates and apps are proven by what lies there. */
const SHOWN = '.well-known'

/**
 * The files of a folder with their hashes, sorted by path, and what is left out because it was hardly meant for everybody: hidden
 * files, and links that lead out of the folder.
 */
export async function filesOf(root: string): Promise<{ files: LocalFile[]; left: LeftOut[] }> {
  const real = await realpath(root).catch(() => '')
  const files: LocalFile[] = []
  const left: LeftOut[] = []
  const look = async (folder: string, prefix: string): Promise<void> => {
    for (const entry of await entriesOf(folder, root)) {
      const [path, from] = [`${prefix}${entry.name}`, join(folder, entry.name)]
      const why = isHidden(entry.name) ? 'hidden' : entry.isSymbolicLink() ? await whyNot(from, real) : undefined
      if (why !== undefined) left.push({ path, why })
      else if (entry.isDirectory()) await look(from, `${path}/`)
      else if (entry.isFile() || entry.isSymbolicLink()) files.push({ path, from, ...(await measured(from)) })
    }
  }
  await look(root, '')
  const byPath = (a: { path: string }, b: { path: string }) => (a.path < b.path ? -1 : 1)
  return { files: files.sort(byPath), left: left.sort(byPath) }
}

const isHidden = (name: string): boolean => name.startsWith('.') && name !== SHOWN

async function entriesOf(folder: string, root: string): Promise<Dirent[]> {
  return readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    throw new Error(
      folder === root ? `${root} is no folder that can be read` : `${folder} cannot be read: ${causeOf(error)}`,
    )
  })
}

/** Why a link is left out; undefined where it is another name for a file of the folder. */
async function whyNot(link: string, root: string): Promise<string | undefined> {
  const to = await realpath(link).catch(() => undefined)
  if (to === undefined) return 'a broken link'
  const inside = relative(root, to).split(sep)
  if (inside[0] === '..' || relative(root, to) === to) return 'a link to outside of the folder'
  if (inside.some(isHidden)) return 'a link to a hidden file'
  return (await stat(to)).isFile() ? undefined : 'a link to a folder'
}

async function measured(from: string): Promise<{ size: number; sha256: string }> {
  const hash = createHash('sha256')
  let size = 0
  try {
    for await (const chunk of createReadStream(from)) {
      hash.update(chunk as Buffer)
      size += (chunk as Buffer).length
    }
  } catch (error) {
    throw new Error(`${from} cannot be read: ${causeOf(error)}`, { cause: error })
  }
  return { size, sha256: hash.digest('hex') }
}
