import { randomUUID } from 'node:crypto'
import { emailOf } from '../../core/contact/email-address.ts'
import { AppError, badRequest, found } from '../../core/errors.ts'
import { ADMIN_ROLES, type AdminRole, SYSTEM } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { changeAudited } from '../../db/audit.ts'
import type { Db, Tx } from '../../db/db.ts'
import { jsonText, noContent, type Route, route } from '../../http/route.ts'
import { checkPasswordRules, type PasswordRules } from '../../identity/password-rules.ts'
import * as q from './admins-sql.ts'
import { dropAdminPasskeys } from './passkeys-sql.ts'
import type { AdminPasswords } from './password.ts'
import { dropTotp } from './second-factor-sql.ts'

type Deps = { db: Db; passwords: AdminPasswords; passwordRules: PasswordRules; dropEnded: () => Promise<void> }
type Known = { name: string; email: string; role: AdminRole; owners: number }

const MAX_NAME = 100
const role = t.oneOf(ADMIN_ROLES)
const password = t.string({ format: 'password' })
const admin = t.object({
  id: t.uuid(),
  name: t.string(),
  email: t.string({ format: 'email' }),
  role,
  mfa: t.boolean({ description: 'whether a second factor is enrolled' }),
  createdAt: t.time(),
})
const one = { auth: 'admin', params: { id: t.id('administrator') } } as const

/** Administrators by name; owners alone see and change them, so no route states a lesser role. */
export function adminsRoutes({ db, passwords, passwordRules, dropEnded }: Deps): Route[] {
  const hashOf = (given: string): Promise<string> => {
    checkPasswordRules(given, passwordRules)
    return passwords.hash(given)
  }
  const record = async (id: string): Promise<string> => (await db.fly(SYSTEM, q.adminRecord(id))) ?? '{}'

  return [
    route('GET /api/admin/admins', {
      summary: 'Administrators, oldest first',
      auth: 'admin',
      answers: { 200: t.object({ items: t.array(admin), count: t.integer() }) },
      handle: async () => jsonText(200, (await db.fly(SYSTEM, q.selectAdmins)) ?? ''),
    }),
    route('POST /api/admin/admins', {
      summary: 'Add an administrator',
      auth: 'admin',
      audit: 'admin.create',
      body: t.object({ email: t.string({ format: 'email' }), name: t.optional(t.string()), password, role }),
      answers: { 201: admin },
      handle: async (call) => {
        const { body } = call
        const email = emailOf(body.email)
        const made = { id: randomUUID(), email, name: nameOf(body.name ?? email), role: body.role }
        const hash = await hashOf(body.password)
        const work = async (tx: Tx): Promise<void> => {
          if ((await tx.run(q.insertAdmin({ ...made, hash }))) === 0)
            throw new AppError('email_taken', 'an administrator has this address')
        }
        await changeAudited(db, work, () => call.audit({ target: made.id, newValues: made }))
        return jsonText(201, await record(made.id))
      },
    }),
    route('PATCH /api/admin/admins/{id}', {
      summary: 'Change name, role or password of an administrator; another role or password ends the tokens',
      ...one,
      audit: 'admin.update',
      body: t.object({
        name: t.optional(t.string()),
        password: t.optional(password),
        role: t.optional(role),
        mfa: t.optional(t.boolean({ description: 'false removes the second factor' })),
      }),
      answers: { 200: admin },
      handle: async (call) => {
        const { body } = call
        const { id } = call.params
        if (body.mfa) throw badRequest('a second factor is enrolled by the administrator who has it')
        const change = {
          ...(body.name !== undefined && { name: nameOf(body.name) }),
          ...(body.role !== undefined && { role: body.role }),
          ...(body.password !== undefined && { hash: await hashOf(body.password) }),
        }
        const work = async (tx: Tx): Promise<Known> => {
          const known = await locked(tx, id)
          if (change.role !== undefined && change.role !== 'owner') requireOtherOwner(known)
          await tx.run(q.updateAdmin(id, change))
          if (body.mfa === false) for (const drop of [dropTotp(id), dropAdminPasskeys(id)]) await tx.run(drop)
          if (body.mfa === false || change.hash !== undefined || (change.role ?? known.role) !== known.role)
            await tx.run(q.endTokensOf(id))
          return known
        }
        await changeAudited(db, work, ({ name, email, role }) => {
          const newValues = {
            name: change.name ?? name,
            role: change.role ?? role,
            passwordChanged: 'hash' in change,
            ...(body.mfa === false && { mfa: false }),
          }
          return call.audit({ oldValues: { name, email, role }, newValues })
        })
        await dropEnded()
        return jsonText(200, await record(id))
      },
    }),
    route('DELETE /api/admin/admins/{id}', {
      summary: 'Remove an administrator; the tokens end within a second, the last owner stays',
      ...one,
      audit: 'admin.delete',
      answers: { 204: null },
      handle: async (call) => {
        const { id } = call.params
        const work = async (tx: Tx): Promise<Known> => {
          const known = await locked(tx, id)
          requireOtherOwner(known)
          await tx.run(q.endTokensOf(id))
          await tx.run(q.deleteAdmin(id))
          return known
        }
        await changeAudited(db, work, ({ name, email, role }) => call.audit({ oldValues: { name, email, role } }))
        await dropEnded()
        return noContent
      },
    }),
  ]
}

async function locked(tx: Tx, id: string): Promise<Known> {
  await tx.run(q.lockAdmins)
  const [known] = await tx.rows<Known>(q.lockAdmin(id))
  return found(known, 'administrator not found', 'user_not_found')
}

function requireOtherOwner({ role, owners }: Known): void {
  if (role === 'owner' && owners < 2) throw new AppError('wrong_state', 'the last owner cannot go')
}

function nameOf(given: string): string {
  const name = given.trim()
  if (name === '' || name.length > MAX_NAME || /\p{Cc}/u.test(name))
    throw badRequest(`name must be one line of 1 to ${MAX_NAME} characters`)
  return name
}
