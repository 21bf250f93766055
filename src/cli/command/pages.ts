import type { Context } from './command.ts'
import { callAdmin } from './server-api.ts'

const PAGE = 100

/** The items of a list that comes in pages; what is made meanwhile does not bring one twice. */
export async function* allPages<T extends { id: string }>(
  context: Context,
  path: string,
  query: Record<string, string> = {},
): AsyncGenerator<T> {
  const seen = new Set<string>()
  for (let page = 1; ; page++) {
    const asked = new URLSearchParams({ ...query, perPage: String(PAGE), page: String(page) })
    const { items } = JSON.parse(await callAdmin(context, `${path}?${asked}`)) as { items: T[] }
    for (const item of items) {
      if (!seen.has(item.id)) yield item
      seen.add(item.id)
    }
    if (items.length < PAGE) return
  }
}
