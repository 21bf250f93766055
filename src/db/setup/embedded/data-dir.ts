import { closeSync, existsSync, fsyncSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { reasonOf } from '../../../core/errors.ts'

/** One directory at a time: Node's recursive mkdir hangs where none can be created, such as /proc. */
export function makeDataDir(dir: string): void {
  if (existsSync(dir)) return
  makeDataDir(dirname(dir))
  try {
    mkdirSync(dir, { mode: 0o700 })
  } catch (error) {
    // Another process may have created it meanwhile.
    if (!existsSync(dir)) throw new Error(`the directory ${dir} cannot be made: ${reasonOf(error)}`)
  }
}

/** Makes the entries of a directory survive a power cut. */
export function syncFolderNow(folder: string): void {
  if (process.platform === 'win32') return
  const descriptor = openSync(folder, 'r')
  fsyncSync(descriptor)
  closeSync(descriptor)
}
