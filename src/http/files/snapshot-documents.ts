import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { type Call, jsonText, type Reply } from '../route.ts'
import { isNotModified } from './conditions.ts'

/** Of the schema. */
type Snapshot = { readonly builtAt: Date }
type MadeDocument = { json: Buffer; etag: string; modifiedAt: Date }

/** There is a document per table list of an API key; the LRU order keeps the common ones. */
const MAX_DOCUMENTS = 20

/** JSON documents about the schema, kept as long as their snapshot. */
export class SnapshotDocuments {
  readonly #perSnapshot = new WeakMap<Snapshot, LRUCache<string, Promise<MadeDocument>>>()

  /** `key` tells apart the readers of one snapshot. */
  async reply(headers: Call['headers'], snapshot: Snapshot, key: string, make: () => Promise<string>): Promise<Reply> {
    const made = await this.#documentFor(snapshot, key, make)
    const common = { ETag: made.etag, 'Cache-Control': 'no-cache', Vary: 'Authorization' }
    if (isNotModified(headers, made)) return { status: 304, headers: common }
    return { ...jsonText(200, made.json), headers: common }
  }

  #documentFor(snapshot: Snapshot, key: string, make: () => Promise<string>): Promise<MadeDocument> {
    const documents = this.#perSnapshot.get(snapshot) ?? new LRUCache({ max: MAX_DOCUMENTS })
    this.#perSnapshot.set(snapshot, documents)
    const made = documents.get(key) ?? make().then((text) => versioned(text, snapshot.builtAt))
    documents.set(key, made)
    // Failures are not cached.
    made.catch(() => documents.delete(key))
    return made
  }
}

function versioned(text: string, modifiedAt: Date): MadeDocument {
  const json = Buffer.from(text)
  return { json, etag: `"${createHash('sha256').update(json).digest('base64url')}"`, modifiedAt }
}
