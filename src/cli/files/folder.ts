import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'

export type LocalFile = { path: string; from: string; size: number; sha256: string }

/** The files of a folder with their hashes, sorted by path, without `.git`. */
export async function filesOf(root: string): Promise<LocalFile[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true }).catch(() => {
    throw new Error(`${root} is no folder that can be read`)
  })
  const files: LocalFile[] = []
  for (const entry of entries) {
    const from = join(entry.parentPath, entry.name)
    const path = relative(root, from).split(sep).join('/')
    const isFile = entry.isFile() || (entry.isSymbolicLink() && (await stat(from).catch(() => undefined))?.isFile())
    if (!isFile || path.split('/').includes('.git')) continue
    files.push({ path, from, ...(await measured(from)) })
  }
  return files.sort((a, b) => (a.path < b.path ? -1 : 1))
}

async function measured(from: string): Promise<{ size: number; sha256: string }> {
  const hash = createHash('sha256')
  let size = 0
  for await (const chunk of createReadStream(from)) {
    hash.update(chunk as Buffer)
    size += (chunk as Buffer).length
  }
  return { size, sha256: hash.digest('hex') }
}
