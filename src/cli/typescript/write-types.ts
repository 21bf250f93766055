import { writeFileSync } from 'node:fs'
import { sleep } from '../../core/clock.ts'
import { reasonOf } from '../../core/errors.ts'
import { type Context, UsageError } from '../command/command.ts'
import { fetchAdmin } from '../command/server-api.ts'
import { type Document, typesOf } from './database-types.ts'

const WATCH_MS = 1000

/** Prints or writes TypeScript types made from the server's OpenAPI document. */
export async function writeTypes(context: Context): Promise<number> {
  const out = context.flag('out')
  const isWatching = context.flag('watch') === true
  if (isWatching && typeof out !== 'string') throw new UsageError('--watch needs --out <file>')
  const write = (text: string): void => {
    if (typeof out !== 'string') context.print(text.trimEnd())
    else {
      writeFileSync(out, text)
      context.print(context.json ? JSON.stringify({ file: out }) : `wrote ${out}`)
    }
  }
  const { document, etag } = await readDocument(context)
  if (document) write(typesOf(document))
  if (isWatching) await watch(context, etag, write)
  return 0
}

/** Without a document if it still has this tag. */
async function readDocument(context: Context, known = ''): Promise<{ etag: string; document?: Document }> {
  const response = await fetchAdmin(context, '/api/openapi.json', { headers: { 'if-none-match': known } })
  const etag = response.headers.get('etag') ?? ''
  return response.status === 304 ? { etag } : { etag, document: (await response.json()) as Document }
}

/** Writes the file whenever the schema changed, until the process is ended. A server that is away is waited for. */
async function watch(context: Context, first: string, write: (text: string) => void): Promise<never> {
  let [known, failure] = [first, '']
  for (;;) {
    await sleep(WATCH_MS)
    try {
      const { etag, document } = await readDocument(context, known)
      if (document) write(typesOf(document))
      known = etag
      failure = ''
    } catch (error) {
      const reason = reasonOf(error)
      if (reason !== failure) context.print(reason)
      failure = reason
    }
  }
}
