import { AppError, badRequest, serverBusy } from '../../core/errors.ts'
import { ownerOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { KeyedMutex } from '../../core/limits.ts'
import { limitOf } from '../../core/page.ts'
import { json, jsonText, noContentAfter, type Route, route } from '../../http/route.ts'
import { addressSubject } from '../../http/wire/client-address.ts'
import { ANY_TRANSFORM, canonical, FITS, FORMATS, TRANSFORM_NAMES, transformIn } from './images/parameters.ts'
import type { ZipArchive } from './objects/archive.ts'
import type { Moving } from './objects/moving.ts'
import { bucketName, encodedName, objectName } from './objects/names.ts'
import type { Objects } from './objects/objects.ts'
import type { Uploads } from './objects/uploads.ts'
import type { Serve } from './serving.ts'
import type { Signatures } from './signatures.ts'

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

export function objectRoutes(deps: {
  objects: Objects
  uploads: Uploads
  moving: Moving
  archive: ZipArchive
  signatures: Signatures
  serve: Serve
  requires: () => void
}): Route[] {
  const { objects, uploads, moving, archive, signatures, serve, requires } = deps
  const common = { auth: 'optional', leastRole: 'viewer', access: 'read', files: true, limit: 'api', requires } as const
  const reads = { ...common, impersonable: true } as const
  const writes = { ...reads, leastRole: 'operator', access: 'write' } as const
  /** One list of a caller or address at a time, because each counts all names that match. */
  const listers = new KeyedMutex()

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
      query: {
        exp: t.string(),
        sig: t.string({ description: 'of a signed URL' }),
        ...IMAGE_QUERY,
      },
      answers: { 200: { content: '*/*' }, 206: { content: '*/*' }, 304: null },
      handle: (call) => serve(call, bucketName(call.params.bucket), objectName(call.params.name)),
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
      body: t.object({
        expiresIn: t.optional(t.integer({ description: 'seconds', default: DEFAULT_EXPIRY })),
        transform: t.optional(
          t.union(t.boolean(), t.record(t.union(t.string(), t.number()), { description: 'width, height, …' })),
        ),
      }),
      answers: { 200: t.object({ url: t.string() }) },
      handle: async ({ params, body, who }) => {
        const [bucket, name] = [bucketName(params.bucket), objectName(params.name)]
        const { expiresIn = 0 } = body
        if (expiresIn > MAX_EXPIRY) throw badRequest(`expiresIn must not exceed ${MAX_EXPIRY} (7 days)`)
        const transform = transformOf(body.transform)
        const object = await objects.readable(who, bucket, name)
        const signed = { ...object, bucket, name, transform }
        const { exp, sig } = signatures.sign(signed, expiresIn > 0 ? expiresIn : DEFAULT_EXPIRY)
        const more = transform === '' ? '' : `&${transform}`
        return json(200, { url: `/api/storage/${bucket}/${encodedName(name)}?exp=${exp}&sig=${sig}${more}` })
      },
    }),
  ]
}

const IMAGE_QUERY = {
  ...{ width: t.string({ description: 'of an image, in pixels' }), height: t.string() },
  ...{
    fit: t.string({ description: FITS.join(', ') }),
    format: t.string({ description: `${FORMATS.join(', ')}, auto` }),
  },
  ...{ quality: t.string(), dpr: t.string(), gravity: t.string() },
}

/** What a signed URL lets do with an image, as it stands in the URL. */
function transformOf(given: boolean | Readonly<Record<string, string | number>> | undefined): string {
  if (typeof given === 'boolean' || given === undefined) return given ? ANY_TRANSFORM : ''
  const unknown = Object.keys(given).find((name) => !TRANSFORM_NAMES.some((known) => known === name))
  if (unknown !== undefined) throw badRequest(`unknown parameter: ${unknown}`)
  const query = Object.fromEntries(Object.entries(given).map(([name, value]) => [name, String(value)]))
  transformIn(query)
  return canonical(query)
}
