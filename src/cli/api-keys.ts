import { type Context, UsageError } from './command/command.ts'
import { allPages } from './command/pages.ts'
import { callAdmin, fetchAdmin } from './command/server-api.ts'
import { textTable } from './command/text-table.ts'
import { userId } from './users.ts'

type ApiKey = {
  id: string
  userId: string
  name: string
  keyPrefix: string
  scope: string
  allowedTables: string[]
  revokedAt: string | null
}

const KEYS = '/api/admin/api-keys'

export async function listApiKeys(context: Context): Promise<number> {
  const items: ApiKey[] = []
  for await (const key of allPages<ApiKey>(context, KEYS)) items.push(key)
  if (context.json) context.print(JSON.stringify({ items, totalItems: items.length }))
  else {
    const rows = items.map(({ id, name, keyPrefix, scope, allowedTables, userId: user, revokedAt }) => [
      ...[id, name, keyPrefix, scope, allowedTables.join(','), user],
      revokedAt === null ? '' : 'revoked',
    ])
    context.print(textTable(['id', 'name', 'begins', 'scope', 'tables', 'user', ''], rows))
  }
  return 0
}

/** The key is shown here, once. */
export async function createApiKey(context: Context): Promise<number> {
  const [user, name, scope, tables, app] = ['user', 'name', 'scope', 'tables', 'app'].map((flag) => context.flag(flag))
  if (typeof user !== 'string' || typeof name !== 'string') throw new UsageError(context.usage)
  const allowedTables = typeof tables === 'string' ? tables.split(',').map((table) => table.trim()) : undefined
  const text = await callAdmin(context, KEYS, {
    userId: await userId(context, user),
    name,
    ...(scope !== undefined && { scope }),
    ...(allowedTables && { allowedTables }),
    ...(app !== undefined && { appId: app }),
  })
  const { key, apiKey } = JSON.parse(text) as { key: string; apiKey: ApiKey }
  context.print(context.json ? text : `${key}\nIt is shown only this once (id ${apiKey.id})`)
  return 0
}

export async function revokeApiKey(context: Context): Promise<number> {
  const [id = ''] = context.args
  await fetchAdmin(context, `${KEYS}/${encodeURIComponent(id)}`, { method: 'DELETE' })
  context.print(context.json ? JSON.stringify({ id, done: 'revoked' }) : 'revoked')
  return 0
}
