import { StringDecoder } from 'node:string_decoder'
import type { BackupTarget } from '../target/target.ts'
import type { Seals } from './seal.ts'
import { parseLsn } from './wal.ts'

/** A request and its transaction, which was committed between two positions; or something that was revoked. */
export type IndexEntry =
  | { request: string; xid: string; at: string; from: string; to: string }
  | { ended: string; subject: string; at: string; to: string }

const folder = (archive: string): string => `index/${archive}/`
const NAME = /^index\/[a-z0-9-]{1,40}\/([0-9a-f]{16})-[0-9a-f]{6}$/

export const archiveIndexName = (archive: string, to: string, mark: string): string =>
  `${folder(archive)}${parseLsn(to).toString(16).padStart(16, '0')}-${mark}`

export type IndexObject = { name: string; to: bigint }

export async function listIndex(target: BackupTarget, archive: string): Promise<IndexObject[]> {
  const found: IndexObject[] = []
  for await (const { name } of target.list(folder(archive))) {
    const to = NAME.exec(name)?.[1]
    if (to !== undefined) found.push({ name, to: BigInt(`0x${to}`) })
  }
  return found.sort((a, b) => (a.to < b.to ? -1 : 1))
}

/** All entries of an archive, in the order of time. */
export async function* readIndex(target: BackupTarget, seals: Seals, archive: string): AsyncGenerator<IndexEntry> {
  for (const { name } of await listIndex(target, archive)) {
    const stored = await target.get(name)
    if (!stored) continue
    let rest = ''
    const decoder = new StringDecoder('utf8')
    for await (const part of seals.open(name, stored)) {
      const lines = (rest + decoder.write(part)).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) yield JSON.parse(line) as IndexEntry
    }
  }
}
