import type pg from 'pg'
import { reasonOf } from '../../core/errors.ts'
import { version } from '../../core/version.ts'
import { openConnection } from '../protocol/driver.ts'
import { ReplicationConnection } from '../protocol/replication.ts'
import { type AddedExtensions, readAddedExtensions } from '../setup/embedded/extensions.ts'
import { openArchive } from './archive/slot.ts'
import { streamBaseBackup } from './base-backup.ts'
import { readExtensionNames } from './logical/definitions.ts'
import { pgDumpMajor } from './logical/pg-dump.ts'
import { takeLogical } from './logical/take-logical.ts'
import { EXTENSIONS, extensionsText } from './restore/extensions.ts'
import { BACKUP_LOCK } from './running.ts'
import { BlobCopies, type BlobSource, copyAllBlobs } from './stored/files.ts'
import { type Origin, originOf } from './stored/origin.ts'
import { type BackupDetails, newBackupId, objectOf, PLATFORM, TOUCH_MS, WRITER, writeRecord } from './stored/records.ts'
import type { Press, Seals } from './stored/seal.ts'
import type { BackupTarget } from './target/target.ts'

export type BackupProgress = { bytes: number; expected: number; part: 'database' | 'files' }

export type TakeBackup = {
  url: string
  target: BackupTarget
  seals: Seals
  blobs: BlobSource
  /** Copies blobs that lie in S3 too. */
  copiesRemoteFiles: boolean
  /** Sealed into the backup where it is encrypted. */
  rootSecret: string
  /** The archive under way, if there is one; in another target, or sealed with another key, it does not go on from this backup. */
  archive: string | null
  /** Where extensions that were added to the embedded PostgreSQL lie. */
  extensionsDir?: string | undefined
  signal?: AbortSignal | undefined
  onBegin?: (id: string) => void
  /** Gets the sentence that says why a copy is a logical one. */
  say?: (line: string) => void
  onProgress?: (progress: BackupProgress) => void
}

/** Why a backup cannot be taken now; the message is for the operator. */
export class BackupRefused extends Error {}

/** Takes a backup and resolves when it is good. Whatever goes wrong leaves one that is listed as failed. */
export async function takeBackup(options: TakeBackup): Promise<BackupDetails> {
  const { url } = options
  const client = await openConnection({ url, applicationName: 'svc backup' })
  try {
    const { rows } = await client.query<{ locked: string }>(`select pg_try_advisory_lock(${BACKUP_LOCK}) as locked`)
    if (rows[0]?.locked !== 't') throw new BackupRefused('a backup of this database is under way')
    const facts = await factsOf(client)
    if (!facts.mayReplicate) {
      requirePgDump(facts)
      options.say?.(`${mayNotReplicate(facts)}: a logical copy is taken, and no log goes on from it`)
    }
    const { target, seals, archive } = options
    const isReadable = archive !== null && (await openArchive(target, seals, archive)) !== undefined
    const run = new Run({ ...options, archive: isReadable ? archive : null }, facts)
    await run.begin()
    try {
      return await run.take(client)
    } catch (error) {
      await run.fail(error)
      throw error
    }
  } finally {
    await client.end().catch(() => {})
  }
}

const mayNotReplicate = ({ user }: Facts): string => `the role ${user} may not replicate`

/** A copy whose tables cannot be made again is none. */
function requirePgDump(facts: Facts): void {
  const found = pgDumpMajor()
  if (found !== undefined && found >= facts.major) return
  throw new BackupRefused(
    `${mayNotReplicate(facts)}, and a logical copy needs pg_dump of PostgreSQL ${facts.major} or newer on the path` +
      `${found === undefined ? '' : ` (it is ${found})`}: install it, or alter role "${facts.user}" replication`,
  )
}

async function factsOf(client: pg.Client): Promise<Facts> {
  const { rows } = await client.query<Record<'major' | 'user' | 'segmentSize' | 'mayReplicate', string>>(
    `select current_setting('server_version_num')::int / 10000 as major, current_user as "user", pg_size_bytes(current_setting('wal_segment_size')) as "segmentSize",
       (select rolreplication or rolsuper from pg_roles where rolname = current_user) as "mayReplicate"`,
  )
  const [row] = rows
  if (!row) throw new Error('PostgreSQL does not describe itself')
  return {
    ...(await originOf(client)),
    major: Number(row.major),
    segmentSize: Number(row.segmentSize),
    mayReplicate: String(row.mayReplicate) === 't',
    user: row.user,
    extensions: await readExtensionNames(client),
  }
}

type Facts = Origin & {
  major: number
  user: string
  segmentSize: number
  mayReplicate: boolean
  extensions: string[]
}

class Run {
  readonly #options: TakeBackup
  readonly #facts: Facts
  #details: BackupDetails
  #touching: NodeJS.Timeout | undefined
  #touched: Promise<void> = Promise.resolve()
  readonly #stored: string[] = []

  constructor(options: TakeBackup, facts: Facts) {
    this.#options = options
    this.#facts = facts
    const now = new Date().toISOString()
    this.#details = {
      id: newBackupId(),
      version: 1,
      state: 'running',
      kind: facts.mayReplicate ? 'physical' : 'logical',
      started_at: now,
      finished_at: null,
      bytes: 0,
      server: facts.server,
      from: null,
      to: null,
      major: facts.major,
      systemId: facts.systemId,
      timeline: 0,
      segmentSize: facts.segmentSize,
      database: facts.database,
      user: facts.user,
      objects: [],
      files: { kind: 'none', count: 0, bytes: 0 },
      archive: facts.mayReplicate ? options.archive : null,
      consistent_at: null,
      touched_at: now,
      writer: WRITER,
      app: version,
      extensions: facts.extensions,
      platform: PLATFORM,
    }
  }

  async begin(): Promise<void> {
    await this.#record('begun')
    this.#touching = setInterval(() => {
      this.#touched = this.#record('begun').catch(() => {})
    }, TOUCH_MS).unref()
    this.#options.onBegin?.(this.#details.id)
  }

  async take(client: pg.Client): Promise<BackupDetails> {
    if (this.#facts.mayReplicate) await this.#takePhysical()
    else await this.#takeLogical()
    await this.#takeExtensions()
    await this.#takeSecret()
    await this.#takeFiles(client)
    await this.#stopTouching()
    this.#options.signal?.throwIfAborted()
    this.#details = { ...this.#details, state: 'good', finished_at: new Date().toISOString() }
    await this.#record('done')
    await this.#options.target.remove(this.#name('begun')).catch(() => {})
    return this.#details
  }

  /** What was stored goes; that it was tried stays in the list. */
  async fail(error: unknown): Promise<void> {
    await this.#stopTouching()
    const { target } = this.#options
    const finished_at = new Date().toISOString()
    this.#details = { ...this.#details, state: 'failed', finished_at, error: reasonOf(error), objects: [] }
    // The target may be what failed: then `begun` stays and is taken for interrupted.
    await this.#record('failed').then(
      () => target.remove(this.#name('begun')),
      () => {},
    )
    for (const name of this.#stored) await target.remove(this.#name(name)).catch(() => {})
  }

  async #takeLogical(): Promise<void> {
    const { url, onProgress, signal } = this.#options
    let bytes = 0
    const { lsn } = await takeLogical({
      url,
      signal,
      store: (name, source, expected) => this.#store(name, source, expected),
      onBytes: (count, expected) => {
        bytes += count
        onProgress?.({ bytes, expected, part: 'database' })
      },
    })
    this.#details = { ...this.#details, from: lsn, to: lsn, consistent_at: this.#details.started_at }
  }

  /** Extensions that PostgreSQL itself does not bring travel along. */
  async #takeExtensions(): Promise<void> {
    const { extensionsDir } = this.#options
    const added: AddedExtensions | undefined = extensionsDir ? readAddedExtensions(extensionsDir) : undefined
    if (added) await this.#store(EXTENSIONS, single(Buffer.from(extensionsText(added))), 0)
  }

  async #takePhysical(): Promise<void> {
    const { url, onProgress, signal } = this.#options
    const connection = await ReplicationConnection.open({ url, applicationName: 'svc backup' })
    const stop = (): void => connection.destroy()
    signal?.addEventListener('abort', stop, { once: true })
    try {
      let bytes = 0
      const base = await streamBaseBackup(connection, {
        major: this.#facts.major,
        label: `svc ${this.#details.id}`,
        store: (...object) => this.#store(...object),
        onBytes: (count, expected) => {
          bytes += count
          onProgress?.({ bytes, expected, part: 'database' })
        },
      })
      const { from, to, timeline } = base
      this.#details = { ...this.#details, from, to, timeline, consistent_at: new Date().toISOString() }
      await connection.end()
    } catch (error) {
      // PostgreSQL sends on and would not hear of an end: the target may be what failed.
      connection.destroy()
      throw error
    } finally {
      signal?.removeEventListener('abort', stop)
    }
  }

  async #takeSecret(): Promise<void> {
    const { seals, rootSecret } = this.#options
    // Without a passphrase it would lie beside what it protects.
    if (seals.isEncrypted) await this.#store('secret', single(Buffer.from(rootSecret)), 0)
  }

  /** Rows that the database has now name every blob that it had at the end of its backup: those go a period late. */
  async #takeFiles(client: pg.Client): Promise<void> {
    const { target, seals, blobs, copiesRemoteFiles, onProgress, signal } = this.#options
    const lists: string[] = []
    let [count, bytes] = [0, 0]
    const isCopied = !blobs.isRemote || copiesRemoteFiles
    const copies = await BlobCopies.ofServer(target, seals, this.#facts.server)
    const note = (row: { id: string; size: number; sha256: string }): void => {
      lists.push(`${row.id} ${row.size} ${row.sha256}\n`)
      count++
      bytes += row.size
    }
    if (isCopied) {
      await copyAllBlobs({
        client,
        copies,
        source: blobs,
        onBlob: (row) => {
          note(row)
          onProgress?.({ bytes, expected: bytes, part: 'files' })
        },
        signal,
      })
    } else {
      const { rows } = await client.query<{ id: string; size: string; sha256: string }>(
        'select id::text as id, size::text as size, sha256 from svc.blobs',
      )
      for (const row of rows) note({ ...row, size: Number(row.size) })
    }
    await this.#store('files', single(Buffer.from(lists.join(''))), 0)
    const kept = isCopied ? ({ kind: 'copied', folder: copies.folder } as const) : ({ kind: 'listed' } as const)
    this.#details = { ...this.#details, files: { ...kept, count, bytes } }
  }

  async #store(name: string, source: AsyncIterable<Buffer>, expected: number, press?: Press): Promise<void> {
    const { target, seals, signal } = this.#options
    const object = this.#name(name)
    this.#stored.push(name)
    const bytes = await target.put(object, seals.seal(object, source, press), { signal, expected })
    this.#details = {
      ...this.#details,
      bytes: this.#details.bytes + bytes,
      objects: [...this.#details.objects, name],
    }
  }

  #name(name: string): string {
    return objectOf(this.#details.id, name)
  }

  #record(name: 'begun' | 'done' | 'failed'): Promise<void> {
    const { target, seals } = this.#options
    return writeRecord(target, seals, this.#name(name), { ...this.#details, touched_at: new Date().toISOString() })
  }

  async #stopTouching(): Promise<void> {
    clearInterval(this.#touching)
    await this.#touched
  }
}

async function* single(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
}
