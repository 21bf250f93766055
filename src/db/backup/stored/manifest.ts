import { createHash } from 'node:crypto'

export type ManifestFile = { path: string; size: number; sha256: string | undefined }
export type Manifest = { files: ReadonlyMap<string, ManifestFile>; walRanges: WalRange[] }
export type WalRange = { timeline: number; start: string; end: string }

type Written = {
  Files?: { Path?: string; 'Encoded-Path'?: string; Size: number; 'Checksum-Algorithm'?: string; Checksum?: string }[]
  'WAL-Ranges'?: { Timeline: number; 'Start-LSN': string; 'End-LSN': string }[]
  'Manifest-Checksum'?: string
}

/** The list of PostgreSQL of what a base backup holds. Throws where its own checksum does not fit. */
export function parseManifest(text: string): Manifest {
  const end = text.lastIndexOf('"Manifest-Checksum"')
  const written = JSON.parse(text) as Written
  const sum = createHash('sha256').update(text.slice(0, end)).digest('hex')
  if (end < 0 || written['Manifest-Checksum'] !== sum) throw new Error('the manifest of the backup is damaged')
  const files = new Map<string, ManifestFile>()
  for (const file of written.Files ?? []) {
    const path = file.Path ?? Buffer.from(file['Encoded-Path'] ?? '', 'hex').toString('utf8')
    const sha256 = file['Checksum-Algorithm'] === 'SHA256' ? file.Checksum : undefined
    files.set(path, { path, size: Number(file.Size), sha256 })
  }
  const walRanges = (written['WAL-Ranges'] ?? []).map((range) => ({
    timeline: range.Timeline,
    start: range['Start-LSN'],
    end: range['End-LSN'],
  }))
  return { files, walRanges }
}

const WAL_FILE = /^pg_wal\/([0-9A-F]{24}|[0-9A-F]{8}\.history|archive_status\/[0-9A-F.a-z]{1,40}\.done)$/

/** Segments of the log travel with a base backup without being in its manifest. */
export const isWalFile = (path: string): boolean => WAL_FILE.test(path)
export const isWalSegment = (path: string): boolean => /^pg_wal\/[0-9A-F]{24}$/.test(path)
