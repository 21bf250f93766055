import { createWriteStream } from 'node:fs'
import { basename } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Context, UsageError } from '../command/command.ts'
import { callAdmin, fetchAdmin } from '../command/server-api.ts'
import { textTable } from '../command/text-table.ts'
import { sendFile } from './send-file.ts'

type Item = { name: string; size: number; contentType: string; updatedAt: string }
type Page = { items: Item[]; totalItems: number }

const PAGE = 500

const encoded = (name: string): string => name.split('/').map(encodeURIComponent).join('/')

export async function listFiles(context: Context): Promise<number> {
  const [bucket = '', prefix = ''] = context.args
  const items: Item[] = []
  for (;;) {
    const query = new URLSearchParams({ prefix, limit: String(PAGE), offset: String(items.length) })
    const page = JSON.parse(await callAdmin(context, `/api/storage/${encodeURIComponent(bucket)}?${query}`)) as Page
    items.push(...page.items)
    if (page.items.length < PAGE) break
  }
  if (context.json) context.print(JSON.stringify({ items, totalItems: items.length }))
  else {
    const rows = items.map(({ name, size, contentType, updatedAt }) => [name, String(size), contentType, updatedAt])
    context.print(textTable(['name', 'size', 'type', 'updated'], rows))
  }
  return 0
}

export async function getFile(context: Context): Promise<number> {
  const [from = '', to = basename(from)] = context.args
  const [, bucket, name] = /^([^/]+)\/(.+)$/.exec(from) ?? []
  if (bucket === undefined || name === undefined) throw new UsageError(context.usage)
  const { body } = await fetchAdmin(context, `/api/storage/${encodeURIComponent(bucket)}/${encoded(name)}`)
  const source = body ? Readable.fromWeb(body as Parameters<typeof Readable.fromWeb>[0]) : Readable.from([])
  await pipeline(source, to === '-' ? process.stdout : createWriteStream(to), { end: to !== '-' })
  return 0
}

export async function putFile(context: Context): Promise<number> {
  const [from = '', to = ''] = context.args
  const [bucket = '', ...path] = to.split('/')
  if (bucket === '') throw new UsageError(context.usage)
  const name = path.join('/') || basename(from)
  const text = await sendFile(context, `/api/storage/${encodeURIComponent(bucket)}`, { from, name })
  const { url, size } = JSON.parse(text) as { url?: string; size: number }
  context.print(context.json ? text : `${url ?? `${bucket}/${name}`} (${size} bytes)`)
  return 0
}
