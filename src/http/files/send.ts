import type { ServerResponse } from 'node:http'
import { budgets } from '../../core/budgets.ts'
import { Budget, type Reservation } from '../../core/limits.ts'
import type { Call, Reply } from '../route.ts'
import { addressSubject } from '../wire/client-address.ts'
import { type ByteRange, isNotModified, type ResourceVersion, rangeOf } from './conditions.ts'
import type { ByteSource } from './source.ts'

export type StoredContent = ResourceVersion & {
  size: number
  headers: Record<string, string>
  /** Opens a range; not called for responses without a body. */
  open(range: ByteRange): Promise<ByteSource>
}

/** Of this process. */
const downloads = new Budget(budgets.downloads)

/** What the common headers say of `Vary` stays. */
export function withVary(response: ServerResponse, headers: Record<string, string>): Record<string, string> {
  const common = response.getHeader('vary')
  const { Vary } = headers
  return common === undefined || Vary === undefined ? headers : { ...headers, Vary: `${common}, ${Vary}` }
}

/** A place of a download in the budget, until its response is closed. */
export function holdDownload({ ip, raw: { response } }: Call): Reservation {
  const place = downloads.reserve(addressSubject(ip), () => response.destroy())
  response.once('close', () => place.release()).on('drain', () => place.renew())
  place.grow(budgets.downloads.each)
  return place
}

/** Answers GET and HEAD of stored bytes, with conditions and one range. */
export async function sendContent(call: Call, content: StoredContent, { status = 200 } = {}): Promise<Reply> {
  const { request, response } = call.raw
  const headers: Record<string, string> = {
    ETag: content.etag,
    'Last-Modified': content.modifiedAt.toUTCString(),
    'Accept-Ranges': 'bytes',
    ...content.headers,
  }
  if (status === 200 && isNotModified(call.headers, content)) {
    const { 'Content-Type': _type, 'Content-Disposition': _disposition, ...kept } = headers
    return { status: 304, headers: kept }
  }
  const isHead = request.method === 'HEAD'
  // RFC 9110 §14.2: Range applies to GET only.
  const range = isHead || status !== 200 ? undefined : rangeOf(call.headers, content.size, content)
  headers['Content-Length'] = String(range ? range.end - range.start + 1 : content.size)
  if (range) headers['Content-Range'] = `bytes ${range.start}-${range.end}/${content.size}`
  const answered = range ? 206 : status
  if (isHead || content.size === 0) return { status: answered, headers }
  const place = holdDownload(call)
  const source = await content.open(range ?? { start: 0, end: content.size - 1 }).catch((error: unknown) => {
    place.release()
    throw error
  })
  if (response.destroyed) {
    source.close()
    place.release()
    return { status: answered, streaming: true }
  }
  response.writeHead(answered, withVary(response, headers))
  source.sendTo(response)
  return { status: answered, streaming: true }
}
