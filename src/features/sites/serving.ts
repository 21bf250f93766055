import { notFound } from '../../core/errors.ts'
import { ON_BEHALF } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { acceptedEncodings } from '../../http/files/encodings.ts'
import { sendContent } from '../../http/files/send.ts'
import type { ByteSource } from '../../http/files/source.ts'
import type { Call, Reply } from '../../http/route.ts'
import { hasHash } from './hashed-names.ts'
import { liveFiles, type ServedFile } from './sql.ts'

type Range = { start: number; end: number }
type Deps = { db: Db; read: (blobId: string, range: Range) => Promise<ByteSource | undefined> }

const INDEX = 'index.html'
const NOT_FOUND = '404.html'

/** Serves the files of sites. Each request runs one query, so it sees one consistent deploy. */
export class Serving {
  readonly #deps: Deps

  constructor(deps: Deps) {
    this.#deps = deps
  }

  async serve(slug: string, rawPath: string, call: Call): Promise<Reply> {
    const candidates = pathsOf(rawPath)
    const paths = [...candidates, INDEX, NOT_FOUND]
    const encodings = acceptedEncodings(call.headers['accept-encoding'])
    const compressed = encodings.flatMap(({ suffix }) => paths.map((path) => path + suffix))
    const rows = await this.#deps.db.rows<ServedFile>(ON_BEHALF, liveFiles(slug, [...paths, ...compressed]))
    const files = new Map(rows.map((file) => [file.path, file]))
    const found = candidates.map((path) => files.get(path)).find((file) => file !== undefined)
    const [any] = rows
    const fallback = any?.spaMode ? files.get(INDEX) : files.get(NOT_FOUND)
    const file = found ?? fallback
    if (!file) throw notFound('not found')
    const status = found || any?.spaMode ? 200 : 404
    const encoding = encodings.find(({ suffix }) => files.has(file.path + suffix))
    return this.#send(
      call,
      file,
      encoding && { name: encoding.name, file: files.get(file.path + encoding.suffix) },
      status,
    )
  }

  async #send(
    call: Call,
    file: ServedFile,
    encoded: { name: string; file: ServedFile | undefined } | undefined,
    status: number,
  ): Promise<Reply> {
    const { blobId, size, sha256 } = encoded?.file ?? file
    const content = {
      etag: `"${sha256}"`,
      modifiedAt: file.promotedAt,
      size,
      headers: {
        'Content-Type': file.contentType,
        'Cache-Control': cacheControl(file, status),
        Vary: 'Accept-Encoding',
        ...(encoded?.file && { 'Content-Encoding': encoded.name }),
      },
      open: async (range: Range) => {
        const bytes = await this.#deps.read(blobId, range)
        if (!bytes) throw new Error(`the bytes of ${file.path} are missing`)
        return bytes
      },
    }
    return sendContent(call, content, { status })
  }
}

function cacheControl({ path, contentType }: ServedFile, status: number): string {
  if (status !== 200 || contentType.startsWith('text/html')) return 'no-cache'
  return hasHash(path) ? 'public, max-age=31536000, immutable' : 'max-age=3600'
}

/** Candidate files for a path, in order: the file itself, then the index of a directory. */
function pathsOf(rawPath: string): string[] {
  const path = decoded(rawPath).replace(/^\//, '')
  if (path === '' || path.endsWith('/')) return [`${path}${INDEX}`]
  return [path, `${path}/${INDEX}`]
}

/** 404 for a path that cannot be decoded or contains NUL, which PostgreSQL cannot store. */
function decoded(rawPath: string): string {
  try {
    const path = decodeURIComponent(rawPath)
    if (!path.includes('\0')) return path
  } catch {
    // Malformed percent-encoding.
  }
  throw notFound('not found')
}
