import { createWriteStream } from 'node:fs'
import { extname } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream } from 'node:stream/web'
import { type Context, UsageError } from '../command/command.ts'
import { fetchAdmin } from '../command/server-api.ts'
import { withFile } from './local-file.ts'
import { Progress } from './progress.ts'

const TYPES: ReadonlyMap<string, string> = new Map([
  ['csv', 'text/csv'],
  ['json', 'application/json'],
  ['ndjson', 'application/x-ndjson'],
])

/** From the flag, else from the file extension. */
function formatOf(context: Context, file: string | undefined): string {
  const format = context.flag('format') ?? (extname(file ?? '').slice(1) || 'csv')
  if (typeof format !== 'string' || !TYPES.has(format)) throw new UsageError('the format is csv, json or ndjson')
  return format
}

/** Streams a table, or a filtered part of it, to a file or to stdout. */
export async function exportTable(context: Context): Promise<number> {
  const [table = '', file] = context.args
  const query = new URLSearchParams()
  for (const name of ['filter', 'sort', 'fields']) {
    const value = context.flag(name)
    if (typeof value === 'string') query.set(name, value)
  }
  const format = formatOf(context, file)
  const path = `/api/collections/${encodeURIComponent(table)}/export.${format}?${query}`
  const { body } = await fetchAdmin(context, path)
  const rows = Readable.fromWeb((body ?? new Blob([]).stream()) as ReadableStream)
  if (file === undefined || file === '-') await pipeline(rows, process.stdout, { end: false })
  else {
    await pipeline(rows, createWriteStream(file))
    context.print(context.json ? JSON.stringify({ file }) : `wrote ${file}`)
  }
  return 0
}

/** Imports a file into a table, all rows or none. */
export async function importTable(context: Context): Promise<number> {
  const [table = '', file = ''] = context.args
  const query = new URLSearchParams()
  const onConflict = context.flag('on-conflict')
  if (typeof onConflict === 'string') query.set('onConflict', onConflict)
  if (context.flag('dry-run')) query.set('dry_run', 'true')
  const path = `/api/collections/${encodeURIComponent(table)}/import?${query}`
  const type = TYPES.get(formatOf(context, file)) ?? ''
  const text = await withFile(file, async ({ size, bytes }) => {
    const progress = new Progress(size, 1)
    try {
      const body = Readable.toWeb(Readable.from(counted(bytes(), progress)))
      const answer = await (await fetchAdmin(context, path, { method: 'POST', type, body })).text()
      progress.fileDone()
      return answer
    } finally {
      progress.end()
    }
  })
  const { created, updated, skipped } = JSON.parse(text) as Record<string, number>
  context.print(context.json ? text : `${created} created, ${updated} updated, ${skipped} skipped`)
  return 0
}

async function* counted(bytes: AsyncIterable<Buffer>, progress: Progress): AsyncGenerator<Buffer> {
  for await (const chunk of bytes) {
    progress.add(chunk.length)
    yield chunk
  }
}
