import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AppError } from '../../../core/errors.ts'
import { type Identity, onBehalfOf, userIdOf } from '../../../core/identity.ts'
import { KeyedLimit } from '../../../core/limits.ts'
import type { Db } from '../../../db/db.ts'
import type { Sql } from '../../../db/sql.ts'
import { sql } from '../../../db/sql.ts'
import { attachment } from '../../../http/files/disposition.ts'
import { NEVER_SCRIPT } from '../../../http/files/never-script.ts'
import { holdDownload, withVary } from '../../../http/files/send.ts'
import { type ZipEntry, zipOf } from '../../../http/files/zip.ts'
import { type Identify, requireStillKnown } from '../../../http/guard.ts'
import type { Call, Reply } from '../../../http/route.ts'
import { addressSubject } from '../../../http/wire/client-address.ts'
import type { Blobs } from '../blobs/blobs.ts'
import {
  ALL_OBJECTS,
  countFiles,
  filesBehind,
  listFolders,
  ownAndOwnerless,
  type VisibleKinds,
  type ZippedFile,
} from './folders-sql.ts'
import type { Objects } from './objects.ts'
import type { PolicedObjects } from './policed.ts'
import { type BucketAccess, isPoliced } from './rights.ts'
import { fileRecord, type NamePage } from './sql.ts'

type Deps = {
  db: Db
  objects: Objects
  policed: PolicedObjects
  blobs: Blobs
  identify: Identify
  baseUrl: () => string
}

const MAX_FILES = 10_000
const PAGE = 200
/** A page is read again after this: the bytes of a replaced file go after 30 s (svc.release_blobs()). */
const PAGE_LIVES_MS = 10_000
/** Archives under way: each keeps the names of its files. */
const PLACES = { total: 16, perKey: 2 }

/** Folders in lists, and all files behind a prefix as one archive. */
export class ZipArchive {
  readonly #deps: Deps
  readonly #places = new KeyedLimit(PLACES)

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** JSON text: {items, folders, totalItems}. */
  async folders(who: Identity, page: NamePage): Promise<string> {
    const { db, objects, policed, baseUrl } = this.#deps
    const { access } = await objects.target(who, page.bucket)
    if (isPoliced(access, who)) return policed.folders(who, page)
    const record = fileRecord(sql`${access === 'public'}`, baseUrl())
    return (await db.fly(onBehalfOf(who), listFolders(page, kindsFor(access, who), record), { kind: 'slow' })) ?? ''
  }

  async send(call: Call, bucket: string, prefix: string): Promise<Reply> {
    const { who, raw } = call
    const release = this.#places.tryAcquire(addressSubject(call.ip))
    if (!release) throw new AppError('server_busy', 'server busy', { headers: { 'Retry-After': '1' } })
    try {
      await this.#requireFew(who, bucket, prefix)
      const { response } = raw
      if (raw.request.method === 'HEAD' || response.destroyed) {
        release()
        return { status: 200, headers: headersOf(bucket, prefix) }
      }
      holdDownload(call)
      response.writeHead(200, withVary(response, headersOf(bucket, prefix)))
      // A failure closes the connection, so that the client does not take a part for the whole.
      pipeline(
        Readable.from(zipOf(this.#entries(call, bucket, prefix)), { objectMode: true, highWaterMark: 1 }),
        response,
      )
        .catch(() => response.destroy())
        .finally(release)
      return { status: 200, streaming: true }
    } catch (error) {
      release()
      throw error
    }
  }

  async #requireFew(who: Identity, bucket: string, prefix: string): Promise<void> {
    const page = { bucket, prefix, after: '', limit: MAX_FILES + 1, offset: 0 }
    const [found] = await this.#rows<{ count: string }>(who, bucket, (kinds) => countFiles(page, kinds))
    if (Number(found?.count ?? 0) > MAX_FILES)
      throw new AppError('response_too_large', `more than ${MAX_FILES} files: choose a longer prefix`)
  }

  /** The rights are those of each page's moment. */
  async *#entries(call: Call, bucket: string, prefix: string): AsyncGenerator<ZipEntry> {
    const { blobs, identify } = this.#deps
    for (let after = '', count = 0; count <= MAX_FILES; ) {
      const page = { bucket, prefix, after, limit: PAGE, offset: 0 }
      const readAt = performance.now()
      const files = await this.#rows<ZippedFile>(call.who, bucket, (kinds) => filesBehind(page, kinds))
      let sent = 0
      for (const { name, blobId, size, updatedAt } of files) {
        const open = async () =>
          size === 0 ? Readable.from([]) : (await blobs.read(blobId, { start: 0, end: size - 1 }))?.stream()
        yield { name, size, modifiedAt: updatedAt, open }
        after = name
        sent++
        if (performance.now() - readAt > PAGE_LIVES_MS) break
      }
      if (sent === files.length && files.length < PAGE) return
      count += sent
      await requireStillKnown(identify, call)
    }
  }

  async #rows<T extends object>(who: Identity, bucket: string, select: (kinds: VisibleKinds) => Sql): Promise<T[]> {
    const { db, objects, policed } = this.#deps
    const { access } = await objects.target(who, bucket)
    if (isPoliced(access, who)) return policed.rows<T>(who, select(ALL_OBJECTS))
    return db.rows<T>(onBehalfOf(who), select(kindsFor(access, who)), { kind: 'slow' })
  }
}

const kindsFor = (access: BucketAccess, who: Identity): VisibleKinds =>
  access === 'private' && who.kind !== 'admin' ? ownAndOwnerless(userIdOf(who)) : ALL_OBJECTS

function headersOf(bucket: string, prefix: string): Record<string, string> {
  const folder = prefix.split('/').filter(Boolean).at(-1)
  return {
    'Content-Type': 'application/zip',
    'Content-Disposition': attachment(`${folder ?? bucket}.zip`),
    'Content-Security-Policy': 'sandbox',
    'Cache-Control': 'private, no-cache',
    ...NEVER_SCRIPT,
  }
}
