import { writeFileSync } from 'node:fs'
import { type Context, UsageError } from './command/command.ts'
import { callAdmin, fetchAdmin } from './command/server-api.ts'

type User = { id: string; email: string; createdAt: string; disabled_at?: string }

const USAGE =
  'usage: svc users list|show|create|invite|disable|enable|password|sessions|end-sessions|factors|remove-factor|providers|remove-provider|export|delete'

/** Administration of users through the running server; a user is named by id or address. */
export async function users(context: Context): Promise<number> {
  const [action = '', who = '', more] = context.args
  const lasting = actions.get(action)
  if (!lasting || (action !== 'list' && who === '')) throw new UsageError(USAGE)
  await lasting(context, who, more)
  return 0
}

type Action = (context: Context, who: string, more: string | undefined) => Promise<void>

const actions: ReadonlyMap<string, Action> = new Map<string, Action>([
  [
    'list',
    async (context, search) => {
      const text = await callAdmin(context, `/api/admin/users?perPage=100&search=${encodeURIComponent(search)}`)
      const { items } = JSON.parse(text) as { items: User[] }
      if (context.json) return context.print(text)
      for (const { id, email, disabled_at } of items) context.print(`${id}  ${email}${disabled_at ? '  disabled' : ''}`)
    },
  ],
  ['show', async (context, who) => context.print(await callAdmin(context, await pathOf(context, who)))],
  [
    'create',
    async (context, email) => made(context, await callAdmin(context, '/api/admin/users', withSecret({ email }))),
  ],
  ['invite', async (context, email) => made(context, await callAdmin(context, '/api/admin/users/invite', { email }))],
  ['disable', (context, who) => post(context, who, 'disable', 'disabled')],
  ['enable', (context, who) => post(context, who, 'enable', 'enabled')],
  ['password', (context, who) => post(context, who, 'password', 'password set', withSecret({}))],
  [
    'sessions',
    async (context, who) => context.print(await callAdmin(context, `${await pathOf(context, who)}/sessions`)),
  ],
  ['end-sessions', (context, who) => remove(context, who, '/sessions', 'sessions ended')],
  ['factors', async (context, who) => context.print(await callAdmin(context, `${await pathOf(context, who)}/factors`))],
  [
    'remove-factor',
    async (context, who, factor) => {
      if (factor === undefined) throw new UsageError('usage: svc users remove-factor USER FACTOR')
      await remove(context, who, `/factors/${encodeURIComponent(factor)}`, 'factor removed')
    },
  ],
  [
    'providers',
    async (context, who) => context.print(await callAdmin(context, `${await pathOf(context, who)}/providers`)),
  ],
  [
    'remove-provider',
    async (context, who, id) => {
      if (id === undefined) throw new UsageError('usage: svc users remove-provider USER ID')
      await remove(context, who, `/providers/${encodeURIComponent(id)}`, 'provider removed')
    },
  ],
  [
    'export',
    async (context, who, file) => {
      const text = await callAdmin(context, `${await pathOf(context, who)}/export`)
      if (file === undefined) return context.print(text)
      writeFileSync(file, text, { mode: 0o600 })
      context.print(`wrote ${file}`)
    },
  ],
  ['delete', (context, who) => remove(context, who, '', 'deleted')],
])

/** A password comes from the environment, because arguments are seen by every process of the machine. */
function withSecret<T extends object>(body: T): T & { password?: string } {
  const password = process.env['SVC_USER_PASSWORD']
  return password === undefined ? body : { ...body, password }
}

function made(context: Context, text: string): void {
  context.print(context.json ? text : (JSON.parse(text) as User).id)
}

async function post(context: Context, who: string, verb: string, done: string, body: object = {}): Promise<void> {
  await callAdmin(context, `${await pathOf(context, who)}/${verb}`, body)
  context.print(done)
}

async function remove(context: Context, who: string, what: string, done: string): Promise<void> {
  await fetchAdmin(context, `${await pathOf(context, who)}${what}`, { method: 'DELETE' })
  context.print(done)
}

async function pathOf(context: Context, who: string): Promise<string> {
  if (!who.includes('@')) return `/api/admin/users/${encodeURIComponent(who)}`
  const address = who.trim().toLowerCase()
  const text = await callAdmin(context, `/api/admin/users?perPage=100&search=${encodeURIComponent(address)}`)
  const found = (JSON.parse(text) as { items: User[] }).items.find(({ email }) => email === address)
  if (!found) throw new Error(`no user has the address ${address}`)
  return `/api/admin/users/${found.id}`
}
