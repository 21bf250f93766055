import { randomUUID } from 'node:crypto'
import type { Context } from '../command/command.ts'
import { fetchAdmin } from '../command/server-api.ts'
import { type OpenFile, withFile } from './local-file.ts'

/** Uploads a file as a form, streamed from disk; resolves to the response text. */
export function sendFile(
  context: Context,
  path: string,
  file: { from: string; name: string },
  sent: (bytes: number) => void = () => {},
): Promise<string> {
  const boundary = randomUUID()
  async function* form({ bytes }: OpenFile) {
    const field = (disposition: string) => `--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n`
    yield Buffer.from(`${field('name="name"')}${file.name}\r\n${field('name="file"; filename="file"')}`)
    for await (const chunk of bytes()) {
      sent(chunk.length)
      yield chunk
    }
    yield Buffer.from(`\r\n--${boundary}--\r\n`)
  }
  return withFile(file.from, async (open) => {
    const type = `multipart/form-data; boundary=${boundary}`
    const body = ReadableStream.from(form(open))
    return (await fetchAdmin(context, path, { method: 'POST', type, body })).text()
  })
}
