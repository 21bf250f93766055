import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { TimeSlice } from '../../core/time-slice.ts'
import { type Call, jsonText, type Reply } from '../route.ts'
import { isNotModified } from './conditions.ts'

/** Of the schema. */
type Snapshot = { readonly builtAt: Date }
type MadeDocument = { json: readonly Buffer[]; etag: string; modifiedAt: Date }

/** There is a document per table list of an API key; the LRU order keeps the common ones. */
const MAX_DOCUMENTS = 20

/** JSON documents about the schema, kept as long as their snapshot. */
export class SnapshotDocuments {
  readonly #perSnapshot = new WeakMap<Snapshot, LRUCache<string, Promise<MadeDocument>>>()

  /** `key` tells apart the readers of one snapshot; `make` returns the document in pieces. */
  async reply(
    headers: Call['headers'],
    snapshot: Snapshot,
    key: string,
    make: () => Promise<readonly string[]>,
  ): Promise<Reply> {
    const made = await this.#documentFor(snapshot, key, make)
    const common = { ETag: made.etag, 'Cache-Control': 'no-cache', Vary: 'Authorization' }
    if (isNotModified(headers, made)) return { status: 304, headers: common }
    return { ...jsonText(200, made.json), headers: common }
  }

  #documentFor(snapshot: Snapshot, key: string, make: () => Promise<readonly string[]>): Promise<MadeDocument> {
    const documents = this.#perSnapshot.get(snapshot) ?? new LRUCache({ max: MAX_DOCUMENTS })
    this.#perSnapshot.set(snapshot, documents)
    const made = documents.get(key) ?? make().then((pieces) => versioned(pieces, snapshot.builtAt))
    documents.set(key, made)
    // Failures are not cached.
    made.catch(() => documents.delete(key))
    return made
  }
}

/** Pieces encoded at once. */
const AT_ONCE = 100

/** Encodes and hashes in slices: the document of a thousand tables has ten megabytes. */
async function versioned(pieces: readonly string[], modifiedAt: Date): Promise<MadeDocument> {
  const slice = new TimeSlice()
  const hash = createHash('sha256')
  const json: Buffer[] = []
  for (let i = 0; i < pieces.length; i += AT_ONCE) {
    const bytes = Buffer.from(pieces.slice(i, i + AT_ONCE).join(''))
    hash.update(bytes)
    json.push(bytes)
    await slice.yieldIfOver()
  }
  return { json, etag: `"${hash.digest('base64url')}"`, modifiedAt }
}
