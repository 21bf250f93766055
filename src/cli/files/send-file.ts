import { randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import type { Context } from '../command/command.ts'
import { fetchAdmin } from '../command/server-api.ts'

/** Uploads a file as a form, streamed from disk; resolves to the response text. */
export async function sendFile(
  context: Context,
  path: string,
  file: { from: string; name: string },
  sent: (bytes: number) => void = () => {},
): Promise<string> {
  const boundary = randomUUID()
  async function* form() {
    const field = (disposition: string) => `--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n`
    yield Buffer.from(`${field('name="name"')}${file.name}\r\n${field('name="file"; filename="file"')}`)
    for await (const chunk of createReadStream(file.from)) {
      sent((chunk as Buffer).length)
      yield chunk as Buffer
    }
    yield Buffer.from(`\r\n--${boundary}--\r\n`)
  }
  const response = await fetchAdmin(context, path, {
    method: 'POST',
    type: `multipart/form-data; boundary=${boundary}`,
    body: ReadableStream.from(form()),
  })
  return response.text()
}
