import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'

const HEAD = (name: string) =>
  `--B\r\nContent-Disposition: form-data; name="name"\r\n\r\n${name}\r\n--B\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n`
const TAIL = '\r\n--B--\r\n'

type Sending = {
  /** The file's pieces, as they are made. */
  pieces: Iterable<Buffer> | AsyncIterable<Buffer>
  as?: string
}
type Sent = { status: number; text: string; sha256: string }

/** A form with a file that is never in memory as a whole. Status 0: the server went away. */
export async function sendLarge(url: string, name: string, { pieces, as }: Sending): Promise<Sent> {
  const hash = createHash('sha256')
  const upload = request(url, {
    method: 'POST',
    headers: {
      'content-type': 'multipart/form-data; boundary=B',
      ...(as !== undefined && { authorization: `Bearer ${as}` }),
    },
  })
  const answered = new Promise<Omit<Sent, 'sha256'>>((resolve) => {
    upload.on('error', () => resolve({ status: 0, text: '' }))
    upload.on('response', (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk) => (text += chunk))
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
      response.on('error', () => resolve({ status: 0, text: '' }))
    })
  })
  let isAnswered = false
  void answered.then(() => (isAnswered = true))
  upload.write(HEAD(name))
  for await (const piece of pieces) {
    hash.update(piece)
    if (isAnswered || upload.destroyed) break
    if (!upload.write(piece)) await Promise.race([once(upload, 'drain').catch(() => {}), answered])
  }
  upload.end(TAIL)
  return { ...(await answered), sha256: hash.digest('hex') }
}

/** The hash of what a URL gives, without keeping it. */
export async function hashOf(url: string): Promise<{ status: number; sha256: string; bytes: number }> {
  const response = await fetch(url)
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of response.body ?? []) {
    hash.update(chunk)
    bytes += chunk.length
  }
  return { status: response.status, sha256: hash.digest('hex'), bytes }
}
