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
