import type { ByteRange } from '../../http/files/conditions.ts'
import { isPassive } from '../../http/files/content-type.ts'
import { attachment } from '../../http/files/disposition.ts'
import { NEVER_SCRIPT, plainType, requireNoScript } from '../../http/files/never-script.ts'
import { sendContent } from '../../http/files/send.ts'
import type { ByteSource } from '../../http/files/source.ts'
import type { Call, Reply } from '../../http/route.ts'
import type { Blobs } from './blobs/blobs.ts'
import type { ImageTransforms } from './images/images.ts'
import { ANY_TRANSFORM, canonical, requireSize, type Transform, transformIn } from './images/parameters.ts'
import { isThere, type Objects, requireObject, versionOf } from './objects/objects.ts'
import type { StoredObject } from './objects/sql.ts'
import type { Signatures } from './signatures.ts'

type Deps = {
  objects: Objects
  blobs: Blobs
  images: ImageTransforms
  signatures: Signatures
  /** Sizes of images in public buckets that list none. */
  publicSizes: readonly string[]
}

/** Answers GET and HEAD of an object. */
export type Serve = (call: Call, bucket: string, name: string) => Promise<Reply>

/** It was replaced, deleted or dropped after its row was read and before its bytes were opened. */
class BytesMissing extends Error {}

export function createServing({ objects, blobs, images, signatures, publicSizes }: Deps): Serve {
  /** By a signature, or by the rights of the caller: a bad bearer is an error only where one is needed. */
  async function readable(
    call: Call,
    bucket: string,
    name: string,
  ): Promise<{ object: StoredObject; caching: string }> {
    const { query } = call
    const found = await objects.find(call.who, bucket, name)
    // Parameters are signed with the rest, unless the signature allows any.
    const transform = query['transform'] === 'true' ? ANY_TRANSFORM : canonical(query)
    const signed = isThere(found) ? { ...found, bucket, name, transform } : undefined
    const secondsLeft = signatures.secondsLeft(signed, query)
    // The address names one version, so nothing else is ever found at it.
    if (secondsLeft !== undefined)
      return { object: requireObject(found), caching: `private, max-age=${secondsLeft}, immutable` }
    if (found.access !== 'public' && call.badBearer) throw call.badBearer
    const object = await objects.requireReadable(call.who, found, bucket, name)
    return { object, caching: object.access === 'public' ? 'public, max-age=86400' : 'private, no-cache' }
  }

  const opening =
    (blobId: string) =>
    async (range: ByteRange): Promise<ByteSource> => {
      const bytes = await blobs.read(blobId, range)
      if (!bytes) throw new BytesMissing(`the bytes of ${blobId} are missing`)
      return bytes
    }

  async function file(call: Call, name: string, object: StoredObject, caching: string): Promise<Reply> {
    const { contentType, size, blobId, inline } = object
    const headers = {
      'Content-Type': plainType(contentType),
      ...NEVER_SCRIPT,
      'Content-Security-Policy': 'sandbox',
      'Cache-Control': caching,
      ...(!inline && !isPassive(contentType) && { 'Content-Disposition': attachment(name) }),
    }
    return sendContent(call, { ...versionOf(object), size, headers, open: opening(blobId) })
  }

  async function image(
    call: Call,
    object: StoredObject,
    transform: Transform,
    caching: string,
    isAgain: boolean,
  ): Promise<Reply> {
    requireSize(transform, object, publicSizes)
    const { id, size, sha256, contentType } = await images.get(call, object, transform, isAgain)
    const headers = {
      'Content-Type': contentType,
      Vary: transform.format === 'auto' ? `Accept, ${NEVER_SCRIPT.Vary}` : NEVER_SCRIPT.Vary,
      'Content-Security-Policy': 'sandbox',
      'Cache-Control': caching,
    }
    return sendContent(call, { etag: `"${sha256}"`, modifiedAt: object.updatedAt, size, headers, open: opening(id) })
  }

  async function attempt(call: Call, bucket: string, name: string, isAgain: boolean): Promise<Reply> {
    requireNoScript(call.headers)
    const transform = transformIn(call.query)
    const { object, caching } = await readable(call, bucket, name)
    return transform ? image(call, object, transform, caching, isAgain) : file(call, name, object, caching)
  }

  return async (call, bucket, name) => {
    try {
      return await attempt(call, bucket, name, false)
    } catch (error) {
      if (!(error instanceof BytesMissing)) throw error
      return attempt(call, bucket, name, true)
    }
  }
}
