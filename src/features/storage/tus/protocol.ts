import { AppError, badRequest } from '../../../core/errors.ts'

// TUS 1.0.0, https://tus.io/protocols/resumable-upload.

const TUS_VERSION = '1.0.0'
export const OFFSET_TYPE = 'application/offset+octet-stream'
const ALGORITHMS: ReadonlySet<string> = new Set(['sha1', 'sha256', 'md5'])

export const RESUMABLE: Readonly<Record<string, string>> = { 'Tus-Resumable': TUS_VERSION, 'Cache-Control': 'no-store' }

/** The answer to OPTIONS. */
export const serverHeaders = (maxSize: number): Readonly<Record<string, string>> => ({
  'Tus-Resumable': TUS_VERSION,
  'Tus-Version': TUS_VERSION,
  'Tus-Extension': 'creation,creation-with-upload,expiration,termination,checksum',
  'Tus-Max-Size': String(maxSize),
  'Tus-Checksum-Algorithm': [...ALGORITHMS].join(','),
})

type Headers = Readonly<Record<string, string | undefined>>

export function requireVersion(headers: Headers): void {
  if (headers['tus-resumable'] !== TUS_VERSION)
    throw new AppError('precondition_failed', `Tus-Resumable must be ${TUS_VERSION}`, {
      headers: { 'Tus-Version': TUS_VERSION },
    })
}

/** A failure as the protocol wants it: with its version. */
export function tusFailure(error: unknown): unknown {
  if (!(error instanceof AppError)) return error
  const { errorCode, message, cause, data, beside, headers } = error
  return new AppError(errorCode, message, {
    ...{ cause, headers: { ...RESUMABLE, ...headers } },
    ...(data && { data }),
    ...(beside && { beside }),
  })
}

export function bytesIn(headers: Headers, name: 'Upload-Length' | 'Upload-Offset'): number {
  const text = headers[name.toLowerCase()]
  if (text === undefined) throw badRequest(`${name} is required`)
  if (!/^\d{1,15}$/.test(text)) throw badRequest(`invalid ${name}`)
  return Number(text)
}

const MAX_METADATA = 8_192

/** `key base64, key base64`; a key may have no value. */
export function metadataIn(headers: Headers): ReadonlyMap<string, string> {
  const text = headers['upload-metadata'] ?? ''
  const refusal = badRequest('invalid Upload-Metadata')
  if (text.length > MAX_METADATA) throw refusal
  const values = new Map<string, string>()
  for (const pair of text.split(',').map((part) => part.trim())) {
    if (pair === '') continue
    const [, key = '', value = ''] = /^([^\s,]+)(?: +([A-Za-z0-9+/]*={0,2}))?$/.exec(pair) ?? []
    if (key === '' || values.has(key)) throw refusal
    values.set(key, Buffer.from(value, 'base64').toString())
  }
  return values
}

/** `algorithm base64`. */
export function checksumIn(headers: Headers): { algorithm: string; digest: Buffer } | undefined {
  const text = headers['upload-checksum']
  if (text === undefined) return undefined
  const [, algorithm = '', value = ''] = /^(\S+) ([A-Za-z0-9+/]+={0,2})$/.exec(text) ?? []
  if (!ALGORITHMS.has(algorithm)) throw badRequest('unsupported checksum algorithm')
  return { algorithm, digest: Buffer.from(value, 'base64') }
}
