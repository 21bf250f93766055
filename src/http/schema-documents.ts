import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Schema } from '../db/schema/snapshot.ts'
import { isNotModified } from './files/conditions.ts'
import { type Call, jsonText, type Reply } from './route.ts'

type MadeDocument = { json: Buffer; etag: string; modifiedAt: Date }

/** There is a document per table list of an API key; the LRU order keeps the common ones. */
const MAX_DOCUMENTS = 20

/** JSON documents that describe a schema snapshot, kept as long as the snapshot. */
export class SchemaDocuments {
  readonly #perSnapshot = new WeakMap<Schema, LRUCache<string, Promise<MadeDocument>>>()

  /** `key` tells apart the readers of one snapshot. */
  async reply(headers: Call['headers'], schema: Schema, key: string, make: () => Promise<string>): Promise<Reply> {
    const made = await this.#documentFor(schema, key, make)
    const common = { ETag: made.etag, 'Cache-Control': 'no-cache', Vary: 'Authorization' }
    if (isNotModified(headers, made)) return { status: 304, headers: common }
    return { ...jsonText(200, made.json), headers: common }
  }

  #documentFor(schema: Schema, key: string, make: () => Promise<string>): Promise<MadeDocument> {
    const documents = this.#perSnapshot.get(schema) ?? new LRUCache({ max: MAX_DOCUMENTS })
    this.#perSnapshot.set(schema, documents)
    const made = documents.get(key) ?? make().then((text) => versioned(text, schema.builtAt))
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
