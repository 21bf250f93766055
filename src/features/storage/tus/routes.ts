import { AppError, badRequest } from '../../../core/errors.ts'
import type { Call, Reply, Route } from '../../../http/route.ts'
import { route } from '../../../http/route.ts'
import { bucketName, objectName } from '../objects/names.ts'
import { fileTooLarge } from '../objects/rules.ts'
import { bytesIn, metadataIn, OFFSET_TYPE, RESUMABLE, requireVersion, serverHeaders, tusFailure } from './protocol.ts'
import type { UploadRow } from './sql.ts'
import type { ResumableUploads } from './uploads.ts'

type Deps = { resumable: ResumableUploads; maxSize: number; requires: () => void }

const expiry = ({ expiresAt }: UploadRow) => ({ 'Upload-Expires': expiresAt.toUTCString() })

/** TUS 1.0.0: uploads that go on where they were cut off. */
export function tusRoutes({ resumable, maxSize, requires }: Deps): Route[] {
  const common = {
    ...({ auth: 'optional', leastRole: 'operator', access: 'write', files: true, limit: 'api', requires } as const),
    optionsHeaders: serverHeaders(maxSize),
  }
  type At = { bucket: string; id: string }

  const answered =
    <P>(work: (call: Call<unknown, P>) => Promise<Reply>) =>
    async (call: Call<unknown, P>): Promise<Reply> => {
      try {
        requireVersion(call.headers)
        const { headers, ...reply } = await work(call)
        return { ...reply, headers: { ...RESUMABLE, ...headers } }
      } catch (error) {
        throw tusFailure(error)
      }
    }

  const status = async ({ who, params, raw }: Call<unknown, At>): Promise<Reply> => {
    const bucket = bucketName(params.bucket)
    const upload = await resumable.find(who, bucket, params.id)
    // A client that is told that all has arrived goes away content.
    if (upload.received === upload.length && !upload.isComplete) await resumable.complete(who, upload)
    const headers = {
      'Upload-Offset': String(upload.received),
      'Upload-Length': String(upload.length),
      ...(upload.metadata !== '' && { 'Upload-Metadata': upload.metadata }),
      ...expiry(upload),
    }
    return { status: raw.request.method === 'HEAD' ? 200 : 204, headers }
  }

  const patch = async (call: Call<unknown, At>): Promise<Reply> => {
    const { who, params, headers } = call
    if (headers['content-type'] !== OFFSET_TYPE)
      throw new AppError('unsupported_media_type', `Content-Type must be ${OFFSET_TYPE}`)
    const offset = bytesIn(headers, 'Upload-Offset')
    const upload = await resumable.find(who, bucketName(params.bucket), params.id)
    if (offset !== upload.received)
      throw new AppError('conflict', 'Upload-Offset is not where the upload ends', {
        headers: { 'Upload-Offset': String(upload.received) },
      })
    const end = upload.isComplete ? upload.received : await resumable.append(call as Call, upload, offset)
    return { status: 204, headers: { 'Upload-Offset': String(end), ...expiry(upload) } }
  }

  const terminate = async ({ who, params }: Call<unknown, At>): Promise<Reply> => {
    await resumable.terminate(who, bucketName(params.bucket), params.id)
    return { status: 204 }
  }

  return [
    route('POST /api/storage/tus/{bucket}', {
      summary: 'Begin a resumable upload (TUS 1.0.0)',
      ...common,
      bodyKind: 'raw',
      answers: { 201: null },
      handle: answered(async (call) => {
        const { who, params, headers } = call
        const bucket = bucketName(params.bucket)
        const hasBody = headers['content-type'] === OFFSET_TYPE
        if (headers['upload-defer-length'] !== undefined) throw badRequest('Upload-Length is required')
        const length = bytesIn(headers, 'Upload-Length')
        if (length > maxSize) throw fileTooLarge()
        const metadata = metadataIn(headers)
        const given = metadata.get('name') || metadata.get('filename') || ''
        if (given === '') throw badRequest('file name is required')
        const name = objectName(given)
        const contentType = (metadata.get('filetype') ?? '').split(';')[0]?.trim().toLowerCase() ?? ''
        const raw = headers['upload-metadata'] ?? ''
        const upload = await resumable.create(who, { bucket, name, contentType, length, metadata: raw })
        const isWhole = length === 0
        const end = hasBody || isWhole ? await resumable.append(call as Call, upload, 0) : 0
        const location = `/api/storage/tus/${bucket}/${upload.id}`
        return { status: 201, headers: { Location: location, 'Upload-Offset': String(end), ...expiry(upload) } }
      }),
    }),
    route('GET /api/storage/tus/{bucket}/{id}', {
      summary: 'How much of a resumable upload has arrived; HEAD, as TUS has it',
      ...common,
      answers: { 204: null },
      handle: answered(status),
    }),
    route('PATCH /api/storage/tus/{bucket}/{id}', {
      summary: 'Go on with a resumable upload',
      ...common,
      bodyKind: 'raw',
      answers: { 204: null },
      handle: answered(patch),
    }),
    route('DELETE /api/storage/tus/{bucket}/{id}', {
      summary: 'Give a resumable upload up',
      ...common,
      answers: { 204: null },
      handle: answered(terminate),
    }),
    route('POST /api/storage/tus/{bucket}/{id}', {
      summary: 'As the method in X-HTTP-Method-Override, for clients that have no PATCH or DELETE',
      ...common,
      bodyKind: 'raw',
      answers: { 204: null },
      handle: answered((call) => {
        const method = call.headers['x-http-method-override']?.toUpperCase()
        if (method === 'PATCH') return patch(call)
        if (method === 'DELETE') return terminate(call)
        if (method === 'HEAD') return status(call)
        throw new AppError('method_not_allowed', 'method not allowed', { headers: { Allow: 'HEAD, PATCH, DELETE' } })
      }),
    }),
  ]
}
