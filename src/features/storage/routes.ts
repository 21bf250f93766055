import { AppError, badRequest, serverBusy } from '../../core/errors.ts'
import { ownerOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { KeyedMutex } from '../../core/limits.ts'
import { limitOf } from '../../core/page.ts'
import type { ByteRange } from '../../http/files/conditions.ts'
import { isPassive } from '../../http/files/content-type.ts'
import { attachment } from '../../http/files/disposition.ts'
import { NEVER_SCRIPT, plainType, requireNoScript } from '../../http/files/never-script.ts'
import { sendContent } from '../../http/files/send.ts'
import type { ByteSource } from '../../http/files/source.ts'
import { type Call, json, jsonText, noContentAfter, type Reply, type Route, route } from '../../http/route.ts'
import { addressSubject } from '../../http/wire/client-address.ts'
import type { Archive } from './archive.ts'
import type { Blobs } from './blobs/blobs.ts'
import type { Moving } from './moving.ts'
import { bucketName, encodedName, objectName } from './names.ts'
import { isThere, type Objects, requireObject, versionOf } from './objects.ts'
import type { Signatures } from './signatures.ts'
import type { StoredObject } from './sql.ts'
import type { Uploads } from './uploads.ts'

const DEFAULT_EXPIRY = 3_600
const MAX_EXPIRY = 604_800
const LIST_WAIT_MS = 10_000

const storageObject = t.object({
  id: t.uuid(),
  bucket: t.string(),
  name: t.string(),
  size: t.integer({ description: 'bytes' }),
  contentType: t.string(),
  userId: t.nullable(t.uuid()),
  metadata: t.optional(t.record(t.any(), { description: 'absent when there is none' })),
  createdAt: t.time(),
  updatedAt: t.time(),
  url: t.optional(t.string({ description: 'public address; absent in private buckets' })),
})

/** The object was replaced or deleted after its row was read and before its bytes were opened. */
class BytesMissing extends Error {}

export function objectRoutes(deps: {
  objects: Objects
  blobs: Blobs
  uploads: Uploads
  moving: Moving
  archive: Archive
  signatures: Signatures
  requires: () => void
}): Route[] {
  const { objects, blobs, uploads, moving, archive, signatures, requires } = deps
  const common = { auth: 'optional', leastRole: 'viewer', access: 'read', files: true, limit: 'api', requires } as const
  const reads = { ...common, impersonable: true } as const
  const writes = { ...reads, leastRole: 'operator', access: 'write' } as const
  /** One list of a caller or address at a time, because each counts all names that match. */
  const listers = new KeyedMutex()

  /** By a signature, or by the rights of the caller: a bad bearer is an error only where one is needed. */
  async function readable(
    call: Call,
    bucket: string,
    name: string,
  ): Promise<{ object: StoredObject; caching: string }> {
    const found = await objects.find(call.who, bucket, name)
    const secondsLeft = signatures.secondsLeft(isThere(found) ? { ...found, bucket, name } : undefined, call.query)
    // The address names one version, so nothing else is ever found at it.
    if (secondsLeft !== undefined)
      return { object: requireObject(found), caching: `private, max-age=${secondsLeft}, immutable` }
    if (found.access !== 'public' && call.badBearer) throw call.badBearer
    const object = await objects.requireReadable(call.who, found, bucket, name)
    return { object, caching: object.access === 'public' ? 'public, max-age=86400' : 'private, no-cache' }
  }

  async function download(call: Call, bucket: string, name: string): Promise<Reply> {
    requireNoScript(call.headers)
    const { object, caching } = await readable(call, bucket, name)
    const { contentType, size, blobId, inline } = object
    const open = async (range: ByteRange): Promise<ByteSource> => {
      const bytes = await blobs.read(blobId, range)
      if (!bytes) throw new BytesMissing(`the bytes of ${bucket}/${name} are missing`)
      return bytes
    }
    const headers = {
      'Content-Type': plainType(contentType),
      ...NEVER_SCRIPT,
      'Content-Security-Policy': 'sandbox',
      'Cache-Control': caching,
      ...(!inline && !isPassive(contentType) && { 'Content-Disposition': attachment(name) }),
    }
    return sendContent(call, { ...versionOf(object), size, headers, open })
  }

  return [
    route('GET /api/storage/{bucket}', {
      summary: 'Objects of a bucket, by name',
      ...reads,
      query: {
        prefix: t.string(),
        after: t.string({ description: 'the name that the page begins behind' }),
        limit: t.integer({ default: 100, maximum: 500 }),
        offset: t.integer(),
        delimiter: t.string({ description: '`/`: what is directly behind the prefix, and `folders`' }),
        format: t.string({ description: '`zip`: all files behind the prefix, as a stream' }),
      },
      answers: {
        200: t.object({
          items: t.array(storageObject),
          folders: t.optional(t.array(t.string(), { description: 'prefixes, with `delimiter`' })),
          totalItems: t.integer({ description: 'all files behind the prefix' }),
        }),
      },
      handle: async (call) => {
        const { params, query, who, ip, cancelSignal: signal } = call
        const bucket = bucketName(params.bucket)
        const page = limitOf(query, { limit: 100, maxLimit: 500 })
        const { prefix = '', after = '', delimiter = '', format = '' } = query
        if (delimiter !== '' && delimiter !== '/') throw badRequest('delimiter must be /')
        if (format !== '' && format !== 'zip') throw badRequest('format must be zip')
        if (format === 'zip') return archive.send(call, bucket, prefix)
        const names = { bucket, prefix, after, ...page }
        const list = () => (delimiter === '' ? objects.list(who, names) : archive.folders(who, names))
        const wait = { signal, timeoutMs: LIST_WAIT_MS, onTimeout: serverBusy }
        return jsonText(200, await listers.run(ownerOf(who) ?? addressSubject(ip), list, wait))
      },
    }),
    route('POST /api/storage/{bucket}', {
      summary: 'Upload a file; the same name again overwrites it',
      ...writes,
      bodyKind: 'raw',
      accepts: t.object({
        file: t.string({ format: 'binary' }),
        name: t.optional(t.string()),
        metadata: t.optional(t.string({ description: 'a JSON object, at most 8 KB' })),
      }),
      answers: { 201: storageObject },
      handle: async (call) => {
        const bucket = bucketName(call.params.bucket)
        const target = await objects.requireUpload(call.who, bucket, Number(call.headers['content-length'] ?? 0))
        const { record } = await uploads.receive(call, (file) => objects.put(call.who, target, file), target)
        return jsonText(201, record)
      },
    }),
    route('GET /api/storage/{bucket}/{name...}', {
      summary: 'The bytes of a file',
      ...reads,
      auth: 'lenient',
      openToVisitors: true,
      query: { exp: t.string(), sig: t.string({ description: 'of a signed URL' }) },
      answers: { 200: { content: '*/*' }, 206: { content: '*/*' }, 304: null },
      handle: async (call) => {
        const [bucket, name] = [bucketName(call.params.bucket), objectName(call.params.name)]
        try {
          return await download(call, bucket, name)
        } catch (error) {
          if (!(error instanceof BytesMissing)) throw error
          return download(call, bucket, name)
        }
      },
    }),
    route('PUT /api/storage/{bucket}/{name...}', {
      summary: 'Upload a file under this name, or replace it; the body is the file',
      ...writes,
      bodyKind: 'raw',
      accepts: t.string({ format: 'binary' }),
      consumes: ['*/*'],
      answers: { 200: storageObject, 201: storageObject },
      handle: async (call) => {
        const { who, params, headers } = call
        const [bucket, name] = [bucketName(params.bucket), objectName(params.name)]
        const contentType = (headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() ?? ''
        const announced = Number(headers['content-length'] ?? 0)
        const target = await objects.requireUpload(who, bucket, announced, { name, contentType })
        const limits = { name, maxSize: target.maxSize }
        const { record, isNew } = await uploads.receiveBody(call, limits, (file) =>
          objects.put(who, target, file, headers),
        )
        return jsonText(isNew ? 201 : 200, record)
      },
    }),
    ...(['move', 'copy'] as const).map((verb) =>
      route(`POST /api/storage/{bucket}/{name...}/${verb}`, {
        summary:
          verb === 'move' ? 'Give a file another name of its bucket' : 'Copy a file to another name of its bucket',
        ...writes,
        body: t.object({ to: t.string() }),
        answers: verb === 'move' ? { 200: storageObject } : { 201: storageObject },
        handle: async ({ params, body, who }) => {
          const [bucket, name, to] = [bucketName(params.bucket), objectName(params.name), objectName(body.to)]
          // A copy shows what is in the file.
          if (verb === 'copy' && who.kind === 'key' && !who.grant.files.read)
            throw new AppError('insufficient_scope', 'api key does not have access to files')
          return jsonText(verb === 'move' ? 200 : 201, await moving[verb](who, bucket, name, to))
        },
      }),
    ),
    route('DELETE /api/storage/{bucket}/{name...}', {
      summary: 'Delete a file',
      ...writes,
      answers: { 204: null },
      handle: ({ params, headers, who }) =>
        noContentAfter(objects.remove(who, bucketName(params.bucket), objectName(params.name), headers)),
    }),
    route('POST /api/storage/{bucket}/{name...}/sign', {
      summary: 'A URL that opens one file for a while',
      // Without `impersonable`: a URL would outlive the token that made it.
      ...common,
      body: t.object({ expiresIn: t.optional(t.integer({ description: 'seconds', default: DEFAULT_EXPIRY })) }),
      answers: { 200: t.object({ url: t.string() }) },
      handle: async ({ params, body, who }) => {
        const [bucket, name] = [bucketName(params.bucket), objectName(params.name)]
        const { expiresIn = 0 } = body
        if (expiresIn > MAX_EXPIRY) throw badRequest(`expiresIn must not exceed ${MAX_EXPIRY} (7 days)`)
        const object = await objects.readable(who, bucket, name)
        const { exp, sig } = signatures.sign({ ...object, bucket, name }, expiresIn > 0 ? expiresIn : DEFAULT_EXPIRY)
        return json(200, { url: `/api/storage/${bucket}/${encodedName(name)}?exp=${exp}&sig=${sig}` })
      },
    }),
  ]
}
