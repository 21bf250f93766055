import { randomHex } from '../core/secret.ts'
import type { Context } from './command/command.ts'
import { callAdmin, fetchAdmin } from './command/server-api.ts'

type Admin = { id: string; name: string; email: string; role: string }

const ADMINS = '/api/admin/admins'

/** A password comes from the environment, because arguments are seen by every process of the machine; else one is made. */
export async function addAdmin(context: Context): Promise<number> {
  const [email] = context.args
  const given = process.env['SVC_USER_PASSWORD']
  const password = given ?? randomHex(16)
  const [name, role = 'viewer'] = [context.flag('name'), context.flag('role')]
  const made = JSON.parse(await callAdmin(context, ADMINS, { email, password, role, ...(name && { name }) })) as Admin
  const shown = { ...made, ...(given === undefined && { password }) }
  const line = `added ${made.email} as ${made.role}${given === undefined ? `, password: ${password}` : ''}`
  context.print(context.json ? JSON.stringify(shown) : line)
  return 0
}

export async function listAdmins(context: Context): Promise<number> {
  const text = await callAdmin(context, ADMINS)
  if (context.json) context.print(text)
  else for (const { id, email, role, name } of itemsOf(text)) context.print(`${id}  ${role}  ${email}  ${name}`)
  return 0
}

export async function removeAdmin(context: Context): Promise<number> {
  const [who = ''] = context.args
  const address = who.trim().toLowerCase()
  const found = itemsOf(await callAdmin(context, ADMINS)).find(({ id, email }) => id === address || email === address)
  if (!found) throw new Error(`no administrator is called ${who}`)
  await fetchAdmin(context, `${ADMINS}/${found.id}`, { method: 'DELETE' })
  context.print(context.json ? JSON.stringify(found) : `removed ${found.email}`)
  return 0
}

const itemsOf = (text: string): Admin[] => (JSON.parse(text) as { items: Admin[] }).items
