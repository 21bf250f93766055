import { sleep } from '../../core/clock.ts'
import type { ReplicationConnection, ReplicationEvent } from '../protocol/replication.ts'
import { ChunkWorker, type Cut } from './stored/chunk-worker.ts'
import { isWalSegment, type Manifest, parseManifest } from './stored/manifest.ts'
import { AHEAD, CHUNK, type Compressed, flagsOf, type Press } from './stored/seal.ts'
import { TarParser } from './stored/tar.ts'

export type BaseBackup = {
  from: string
  to: string
  timeline: number
  objects: string[]
  manifest: Manifest
}

/** Stores one object as it arrives; each part is good until the next one is taken. */
type StoreObject = (name: string, bytes: AsyncIterable<Buffer>, expected: number, press?: Press) => Promise<void>

const PAUSE_EVERY = 2 ** 18
const MOST_PAUSE_MS = 100
/** A manifest has some hundred bytes for each file of the database. */
const MOST_MANIFEST_BYTES = 512 * 2 ** 20

/** With the map 14 and 15 leave out tablespaces that are folders, as a restored cluster has them. */
const commandFor = (major: number, label: string): string => {
  if (major < 15)
    return `BASE_BACKUP LABEL '${label}' PROGRESS FAST WAL NOWAIT MANIFEST 'yes' MANIFEST_CHECKSUMS 'SHA256'`
  const map = major >= 16 ? ', TABLESPACE_MAP true' : ''
  const wal = `CHECKPOINT 'fast', WAL true, WAIT false${map}`
  return `BASE_BACKUP (LABEL '${label}', PROGRESS true, ${wal}, MANIFEST 'yes', MANIFEST_CHECKSUMS 'SHA256')`
}

/**
 * Streams a base backup: `base` and one object `tablespace-<oid>` for each other tablespace, as tar, and `manifest`. Throws
 * unless every file equals the manifest.
 */
export async function streamBaseBackup(
  connection: ReplicationConnection,
  options: { major: number; label: string; store: StoreObject; onBytes: (bytes: number, expected: number) => void },
): Promise<BaseBackup> {
  const { major, label, store, onBytes } = options
  const events = connection.run(commandFor(major, label), { isCopied: true })
  const answer = new BackupAnswer(events, major)
  const files: StreamedFiles = new Map()
  const objects: string[] = []
  let manifest: string | undefined
  const worker = new ChunkWorker(AHEAD + 1, CHUNK)
  try {
    // Not at the same time as the checkpoint that PostgreSQL begins with.
    await worker.started()
    for (let archive = await answer.next(); archive; archive = await answer.next()) {
      if (archive.name === 'manifest') {
        manifest = await textOf(archive.bytes)
        continue
      }
      const { name, prefix } = archive
      objects.push(name)
      const counted = countBytes(withPauses(archive.bytes), (bytes) => onBytes(bytes, answer.expected))
      const sums = new ArchiveSums(prefix, files, worker)
      await store(name, sums.read(counted), answer.expected, (chunk) => sums.press(chunk))
    }
  } finally {
    await worker.close()
  }
  if (manifest === undefined || !answer.start || !answer.end) throw new Error('PostgreSQL ended the backup too early')
  const parsed = parseManifest(manifest)
  compare(parsed, files)
  const text = Buffer.from(manifest)
  await store('manifest', single(text), text.length)
  return { from: answer.start.lsn, to: answer.end.lsn, timeline: answer.start.timeline, objects, manifest: parsed }
}

type Archive = { name: string; prefix: string; bytes: AsyncIterable<Buffer> }
type Position = { lsn: string; timeline: number }

/**
 * Cuts the answer to BASE_BACKUP into archives. PostgreSQL 14 sends a copy for each; later ones send one copy whose
 * messages begin with a letter: n(ew archive), m(anifest), d(ata), p(rogress).
 */
class BackupAnswer {
  readonly #events: AsyncGenerator<ReplicationEvent>
  readonly #hasLetters: boolean
  readonly #sets: (string | null)[][][] = []
  #copies = 0
  /** The beginning of the next archive, which ended the one before. */
  #upcoming: { name: string; prefix: string } | undefined

  constructor(events: AsyncGenerator<ReplicationEvent>, major: number) {
    this.#events = events
    this.#hasLetters = major >= 15
  }

  get start(): Position | undefined {
    return positionOf(this.#sets[0]?.[0])
  }
  get end(): Position | undefined {
    return positionOf(this.#sets[2]?.[0])
  }
  /** Bytes, by the estimate of PostgreSQL. */
  get expected(): number {
    return (this.#sets[1] ?? []).reduce((sum, [, , kilobytes]) => sum + 1024 * Number(kilobytes ?? 0), 0)
  }

  async next(): Promise<Archive | undefined> {
    while (!this.#upcoming) {
      const { done, value } = await this.#events.next()
      if (done) return undefined
      this.#take(value)
    }
    const head = this.#upcoming
    this.#upcoming = undefined
    return { ...head, bytes: this.#bytes() }
  }

  async *#bytes(): AsyncGenerator<Buffer> {
    while (!this.#upcoming) {
      const { done, value } = await this.#events.next()
      if (done) return
      if (value.kind === 'end') return
      const data = this.#take(value)
      if (data) yield data
    }
  }

  /** Bytes of the archive under way. */
  #take(event: ReplicationEvent): Buffer | undefined {
    if (event.kind === 'rows') this.#sets.push(event.rows)
    if (event.kind === 'begin' && !this.#hasLetters) {
      const spaces = this.#sets[1] ?? []
      const space = spaces[this.#copies++]
      this.#upcoming = space ? archiveOf(space[0] ?? '') : { name: 'manifest', prefix: '' }
    }
    if (event.kind !== 'data') return undefined
    if (!this.#hasLetters) return event.bytes
    switch (String.fromCharCode(event.bytes[0] ?? 0)) {
      case 'd':
        return event.bytes.subarray(1)
      case 'n':
        this.#upcoming = archiveOf(event.bytes.toString('utf8', 1, event.bytes.indexOf(0, 1)).replace(/\.tar$/, ''))
        return undefined
      case 'm':
        this.#upcoming = { name: 'manifest', prefix: '' }
        return undefined
      default:
        return undefined
    }
  }
}

const archiveOf = (oid: string): { name: string; prefix: string } =>
  /^\d+$/.test(oid) ? { name: `tablespace-${oid}`, prefix: `pg_tblspc/${oid}/` } : { name: 'base', prefix: '' }

const positionOf = (row: (string | null)[] | undefined): Position | undefined =>
  row?.[0] ? { lsn: row[0], timeline: Number(row[1] ?? 0) } : undefined

type StreamedFiles = Map<string, { size: number; sha256: string }>

/** Passes an archive on and finds its files; the worker that compresses it sums them up. */
class ArchiveSums {
  readonly #prefix: string
  readonly #files: StreamedFiles
  readonly #worker: ChunkWorker
  /** Not sent to the worker yet; `at` counts from the beginning of the archive. */
  #cuts: Cut[] = []
  /** Files whose checksum has not ended yet, in order. */
  readonly #named: { name: string; size: number }[] = []
  #read = 0
  #pressed = 0

  constructor(prefix: string, files: StreamedFiles, worker: ChunkWorker) {
    this.#prefix = prefix
    this.#files = files
    this.#worker = worker
  }

  async *read(bytes: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    const parser = new TarParser({
      onEntry: ({ name, type, size }) => {
        if (type !== 'file' || isWalSegment(name)) return
        const at = parser.position
        this.#cuts.push({ at, does: 'begin' }, { at: at + size, does: 'end' })
        this.#named.push({ name: this.#prefix + name, size })
      },
      onBytes: () => {},
      onEntryEnd: () => {},
    })
    for await (const part of bytes) {
      await parser.write(part)
      this.#read += part.length
      yield part
    }
    await parser.end()
  }

  /** Everything of a chunk has been read before it is pressed. */
  async press(chunk: Buffer): Promise<Compressed> {
    const [from, to] = [this.#pressed, this.#pressed + chunk.length]
    this.#pressed = to
    const inside = this.#cuts.filter(({ at }) => at < to || (at === to && to === this.#read))
    this.#cuts = this.#cuts.slice(inside.length)
    const cuts = inside.map(({ at, does }) => ({ at: at - from, does }))
    const ended = this.#named.splice(0, cuts.filter(({ does }) => does === 'end').length)
    const { bytes, method, sums, release } = await this.#worker.press(chunk, cuts)
    for (const [i, { name, size }] of ended.entries()) this.#files.set(name, { size, sha256: sums[i] ?? '' })
    return { bytes, flags: flagsOf(method), release }
  }
}

function compare({ files }: Manifest, streamed: StreamedFiles): void {
  for (const { path, size, sha256 } of files.values()) {
    const file = streamed.get(path)
    if (!file) throw new Error(`the backup has no ${path}, which its manifest names`)
    if (file.size !== size || (sha256 !== undefined && file.sha256 !== sha256)) {
      throw new Error(`${path} differs from the manifest of the backup`)
    }
  }
}

async function textOf(bytes: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of bytes) {
    size += part.length
    if (size > MOST_MANIFEST_BYTES) throw new Error('the manifest of the backup is too large')
    parts.push(Buffer.from(part))
  }
  return Buffer.concat(parts).toString('utf8')
}

async function* countBytes(bytes: AsyncIterable<Buffer>, onBytes: (bytes: number) => void): AsyncGenerator<Buffer> {
  for await (const part of bytes) {
    onBytes(part.length)
    yield part
  }
}

/** Pauses for as long as it read: requests get their turn, and the thread that compresses goes on meanwhile. */
async function* withPauses(bytes: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let [read, since] = [0, performance.now()]
  for await (const part of bytes) {
    yield part
    read += part.length
    if (read < PAUSE_EVERY) continue
    await sleep(Math.min(performance.now() - since, MOST_PAUSE_MS))
    read = 0
    since = performance.now()
  }
}

async function* single(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
}
