import { existsSync } from 'node:fs'
import { stat, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Config } from '../config/config.ts'
import { reasonOf } from '../core/errors.ts'

const LEAST_FREE = 0.05
const GIGABYTE = 1024 ** 3
const MEGABYTE = 1024 ** 2

/** Where the server and its embedded database write and too little is free; folders of one file system count once. */
export async function shortOfSpace({ data_dir: dataDir, storage, database }: Config): Promise<string[]> {
  const isLocal = storage.backend === 'local'
  const folders = [...(isLocal ? [storage.local_path] : []), ...(database.url === '' ? [dataDir] : [])]
  const seen = new Set<number>()
  const short: string[] = []
  for (const folder of folders) {
    try {
      const { dev } = await stat(existing(folder))
      if (seen.has(dev)) continue
      seen.add(dev)
      const { bavail, blocks, bsize } = await statfs(existing(folder))
      const free = bavail * bsize
      const least = Math.max(isLocal ? storage.disk_reserve : 0, Math.min(GIGABYTE, blocks * bsize * LEAST_FREE))
      if (free < least) short.push(`${sizeOf(free)} are free for ${folder}, less than ${sizeOf(least)}`)
    } catch (error) {
      short.push(`the free space for ${folder} cannot be read: ${reasonOf(error)}`)
    }
  }
  return short
}

const sizeOf = (bytes: number): string =>
  bytes < GIGABYTE ? `${Math.floor(bytes / MEGABYTE)} MB` : `${(bytes / GIGABYTE).toFixed(1)} GB`
const existing = (path: string): string => (existsSync(path) || path === dirname(path) ? path : existing(dirname(path)))
