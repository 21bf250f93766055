import { writeFileSync } from 'node:fs'
import type { Context } from './command/command.ts'
import { allPages } from './command/pages.ts'
import { callAdmin, fetchAdmin } from './command/server-api.ts'

type User = { id: string; email: string; createdAt: string; disabled_at?: string }

type Action = (context: Context, who: string, more: string | undefined) => Promise<void>

/** What `svc users <action>` does through the running server; a user is named by id or address. */
const actions = {
  async list(context, text) {
    const search = context.flag('search') ?? text
    const items: User[] = []
    for await (const user of found(context, String(search))) items.push(user)
    if (context.json) return context.print(JSON.stringify({ items, totalItems: items.length }))
    for (const { id, email, disabled_at } of items) context.print(`${id}  ${email}${disabled_at ? '  disabled' : ''}`)
  },
  show: (context, who) => show(context, who, ''),
  sessions: (context, who) => show(context, who, '/sessions'),
  factors: (context, who) => show(context, who, '/factors'),
  async create(context, email) {
    made(context, await callAdmin(context, '/api/admin/users', withSecret({ email })))
  },
  async invite(context, email) {
    made(context, await callAdmin(context, '/api/admin/users/invite', { email }))
  },
  disable: (context, who) => post(context, who, 'disable', 'disabled'),
  enable: (context, who) => post(context, who, 'enable', 'enabled'),
  password: (context, who) => post(context, who, 'password', 'password set', withSecret({})),
  'end-sessions': (context, who) => remove(context, who, '/sessions', 'sessions ended'),
  'remove-factor': (context, who, factor = '') =>
    remove(context, who, `/factors/${encodeURIComponent(factor)}`, 'factor removed'),
  async export(context, who, file) {
    const text = await callAdmin(context, `${await pathOf(context, who)}/export`)
    if (file === undefined) return context.print(text)
    writeFileSync(file, text, { mode: 0o600 })
    context.print(context.json ? JSON.stringify({ file }) : `wrote ${file}`)
  },
  delete: (context, who) => remove(context, who, '', 'deleted'),
} satisfies Record<string, Action>

export type UserAction = keyof typeof actions

export async function users(action: UserAction, context: Context): Promise<number> {
  const [who = '', more] = context.args
  await actions[action](context, who, more)
  return 0
}

/** A password comes from the environment, because arguments are seen by every process of the machine. */
function withSecret<T extends object>(body: T): T & { password?: string } {
  const password = process.env['SVC_USER_PASSWORD']
  return password === undefined ? body : { ...body, password }
}

function made(context: Context, text: string): void {
  context.print(context.json ? text : (JSON.parse(text) as User).id)
}

async function show(context: Context, who: string, what: string): Promise<void> {
  context.print(await callAdmin(context, `${await pathOf(context, who)}${what}`))
}

async function post(context: Context, who: string, verb: string, done: string, body: object = {}): Promise<void> {
  const id = await userId(context, who)
  await callAdmin(context, `${USERS}/${encodeURIComponent(id)}/${verb}`, body)
  say(context, id, done)
}

async function remove(context: Context, who: string, what: string, done: string): Promise<void> {
  const id = await userId(context, who)
  await fetchAdmin(context, `${USERS}/${encodeURIComponent(id)}${what}`, { method: 'DELETE' })
  say(context, id, done)
}

const say = (context: Context, id: string, done: string): void =>
  context.print(context.json ? JSON.stringify({ id, done }) : done)

const USERS = '/api/admin/users'

const found = (context: Context, search: string): AsyncGenerator<User> => allPages<User>(context, USERS, { search })

async function pathOf(context: Context, who: string): Promise<string> {
  return `${USERS}/${encodeURIComponent(await userId(context, who))}`
}

/** Of an id or an address. */
export async function userId(context: Context, who: string): Promise<string> {
  if (!who.includes('@')) return who
  const address = who.trim().toLowerCase()
  for await (const { id, email } of found(context, address)) if (email === address) return id
  throw new Error(`no user has the address ${address}`)
}
