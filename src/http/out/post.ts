import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'

export type Posted = { status: number; text: string }

/** As fetch, which cannot name another host. */
export function post(url: string, body: string, headers: Record<string, string>): Promise<Posted> {
  const send = url.startsWith('https:') ? httpsRequest : httpRequest
  return new Promise((resolve, reject) => {
    const all = { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers }
    const sent = send(
      url,
      { method: 'POST', headers: { ...all, 'content-length': String(Buffer.byteLength(body)) } },
      (answer) => {
        const chunks: Buffer[] = []
        answer.on('data', (chunk: Buffer) => chunks.push(chunk))
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString() }))
        answer.on('error', reject)
      },
    )
    sent.on('error', (error) => reject(new Error(`no server answers at ${new URL(url).origin}`, { cause: error })))
    sent.end(body)
  })
}
