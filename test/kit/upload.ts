import { request } from 'node:http'
import type { Answer, TestServer } from './kit.ts'
import { parsed } from './parsed.ts'

type File = { as?: string; content?: string | Uint8Array; fileName?: string; name?: string; type?: string }

/** A form with one file, as browsers send it. */
function fileForm({ content = 'hello', fileName = 'hello.txt', name, type = '' }: File): FormData {
  const form = new FormData()
  if (name !== undefined) form.set('name', name)
  form.set('file', new Blob([content], { type }), fileName)
  return form
}

/** Uploads a file to a path that takes one. */
export async function upload(api: TestServer, path: string, file: File = {}): Promise<Answer> {
  const bearer = file.as === 'admin' ? await api.adminToken() : file.as
  const response = await fetch(api.url + path, {
    method: 'POST',
    body: fileForm(file),
    ...(bearer !== undefined && { headers: { authorization: `Bearer ${bearer}` } }),
  })
  const text = await response.text()
  return { status: response.status, body: text === '' ? '' : parsed(text), text, headers: response.headers }
}

/** An upload that the server has begun to receive, and of which the end is sent by `finish`. */
export async function beginUpload(url: string, bucket: string, token?: string) {
  const sent = request(`${url}/api/storage/${bucket}`, {
    method: 'POST',
    headers: {
      'content-type': 'multipart/form-data; boundary=B',
      expect: '100-continue',
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    },
  })
  const answer = new Promise<{ status: number; body: unknown }>((resolve, reject) => {
    sent.on('error', reject).on('response', async (response) => {
      const chunks = await response.toArray()
      resolve({ status: response.statusCode ?? 0, body: parsed(Buffer.concat(chunks).toString()) })
    })
  })
  const isBegun = new Promise<void>((resolve) => sent.on('continue', resolve))
  sent.flushHeaders()
  await isBegun
  sent.write('--B\r\nContent-Disposition: form-data; name="file"; filename="late.txt"\r\n\r\nsecret')
  return {
    finish: () => {
      sent.end('\r\n--B--\r\n')
      return answer
    },
  }
}
