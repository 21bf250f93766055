import { randomUUID } from 'node:crypto'
import type { AuditNote, AuditSource } from '../../core/audit-entry.ts'
import { notFound } from '../../core/errors.ts'
import { ON_DATA, SYSTEM } from '../../core/identity.ts'
import { auditStatement, changeAudited } from '../../db/audit.ts'
import type { Db, Tx } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import type { IdentityDeps } from '../../identity/deps.ts'
import { orEmailTaken } from '../../identity/errors.ts'
import { type RemovedIdentity, removeIdentity } from '../../identity/linked-identities.ts'
import { endSessionsOf, insertUser, lockAccount, userJson } from '../../identity/users.ts'
import { exportOf, type PointingTable, rowsPointingTo, tablesPointingToUsers } from './export-sql.ts'
import * as q from './sql.ts'

export type UserDeps = Pick<IdentityDeps, 'passwords' | 'mailLink' | 'wakeMail' | 'onRevoked'> & {
  db: Db
  /** Returns no row if there is no such user. */
  deleteUser: (id: string) => Sql
  /** Statements that end sessions, grants and own keys of a user. */
  endAccess: (userId: string) => readonly Sql[]
}

export type NewUser = {
  email: string
  password?: string
  email_verified?: boolean
  metadata?: string
  appMetadata?: string
}
export type UserChange = { email?: string; email_verified?: boolean; metadata?: string; appMetadata?: string }

/** What an administrator does with accounts; each change is audited with it. */
export function createUserAdministration(deps: UserDeps) {
  const { db } = deps

  /** Runs `work` with the account locked, and drops its cached tokens. */
  async function change<T>(
    userId: string,
    act: AuditSource,
    work: (tx: Tx) => Promise<T>,
    noteOf: (result: T) => AuditNote = () => ({}),
  ): Promise<void> {
    await changeAudited(
      db,
      async (tx) => {
        await lockAccount(tx, userId, unknownUser)
        return work(tx)
      },
      (result) => act.audit(noteOf(result)),
    )
    deps.onRevoked(userId)
  }

  const one = async (userId: string, query: (id: string) => Sql): Promise<string> => {
    const text = await db.fly(SYSTEM, query(userId))
    if (text === null) throw unknownUser()
    return text
  }

  return {
    get: (userId: string) => one(userId, userJson),
    sessions: (userId: string) => one(userId, q.sessionsOf),
    factors: (userId: string) => one(userId, q.factorsOf),
    providers: (userId: string) => one(userId, q.userProviders),
    organizations: (userId: string) => one(userId, q.userOrganizations),

    /** An account without a password signs in by links, providers or passkeys. `isInvited`: a mail lets it set one. */
    async create(given: NewUser, isInvited: boolean, act: AuditSource): Promise<string> {
      const id = randomUUID()
      const { email, password, email_verified = false } = given
      const passwordHash = password === undefined ? undefined : await deps.passwords.hash(password)
      const made = insertUser({ id, email, emailVerified: email_verified, ...(passwordHash && { passwordHash }) })
      const work = async (tx: Tx): Promise<void> => {
        await orEmailTaken(tx.run(made), 'email already registered')
        await tx.run(q.updateUser(id, given))
        if (isInvited) await tx.run(deps.mailLink('invite', email, id))
      }
      await changeAudited(db, work, () => act.audit({ target: id, newValues: { email, invited: isInvited } }))
      deps.wakeMail()
      return one(id, userJson)
    },

    async update(userId: string, given: UserChange, act: AuditSource): Promise<string> {
      const newValues = noted(given)
      const work = async (tx: Tx): Promise<Noted> => {
        const old: Noted = JSON.parse((await tx.fly(q.changeable(userId))) ?? '{}')
        await orEmailTaken(tx.run(q.updateUser(userId, given)), 'email already registered')
        return Object.fromEntries(Object.entries(old).filter(([name]) => name in newValues))
      }
      await change(userId, act, work, (oldValues) => ({ oldValues, newValues }))
      return one(userId, userJson)
    },

    /** Nothing opens a session, and no key or token counts, until the account is enabled. */
    disable: (userId: string, act: AuditSource) =>
      change(userId, act, async (tx) => {
        await tx.run(q.setDisabled(userId, true))
        await tx.run(endSessionsOf(userId))
      }),

    enable: (userId: string, act: AuditSource) => change(userId, act, (tx) => tx.run(q.setDisabled(userId, false))),

    async setPassword(userId: string, password: string, act: AuditSource): Promise<void> {
      const hash = await deps.passwords.hash(password)
      await change(userId, act, async (tx) => {
        await tx.run(q.setUserPassword(userId, hash))
        for (const statement of deps.endAccess(userId)) await tx.run(statement)
      })
    },

    endSessions: (userId: string, act: AuditSource) => change(userId, act, (tx) => tx.run(endSessionsOf(userId))),

    /** Sessions that it opened end with it. */
    removeFactor: (userId: string, factor: string, act: AuditSource) =>
      change(
        userId,
        act,
        async (tx) => {
          if ((await tx.fly(q.removeFactor(userId, factor))) === null)
            throw notFound('factor not found', 'factor_not_found')
          await tx.run(q.dropUselessCodes(userId))
          await tx.run(endSessionsOf(userId))
        },
        () => ({ newValues: { factor } }),
      ),

    /** As `removeFactor`. */
    removeProvider: (userId: string, identity: string, act: AuditSource) =>
      change(
        userId,
        act,
        async (tx) => {
          const [removed] = await tx.rows<RemovedIdentity>(removeIdentity(userId, identity))
          if (!removed) throw notFound('identity not found', 'identity_not_found')
          await tx.run(endSessionsOf(userId))
          return removed
        },
        (newValues) => ({ target: userId, newValues }),
      ),

    async remove(userId: string, act: AuditSource): Promise<void> {
      const work = async (tx: Tx): Promise<void> => {
        if ((await tx.run(deps.deleteUser(userId))) === 0) throw unknownUser()
      }
      await changeAudited(db, work, () => act.audit())
      deps.onRevoked(userId)
    },

    /**
     * Everything the server keeps of a person, and the rows of tables that point to the account. To write rows as JSON is to run
     * casts that owners of types wrote: the login of data does that. What it may not read is named.
     */
    async export(userId: string, act: AuditSource): Promise<string> {
      const [account] = await db.fly(SYSTEM, [exportOf(userId), auditStatement(act.audit())])
      if (account == null) throw unknownUser()
      const pointing = await db.rows<PointingTable>(ON_DATA, tablesPointingToUsers)
      const tables = pointing.filter(({ is_readable }) => is_readable)
      const statements = tables.map((table) => rowsPointingTo(table, userId))
      const [first, ...rest] = statements
      const rows = first ? await db.fly(ON_DATA, [first, ...rest], { kind: 'slow' }) : []
      const nameOf = ({ schema, table }: PointingTable): string => `${schema}.${table}`
      const parts = tables.map((table, i) => `${JSON.stringify(nameOf(table))}:${rows[i] ?? '[]'}`)
      const leftOut = pointing.filter(({ is_readable }) => !is_readable).map(nameOf)
      const more = leftOut.length > 0 ? `,"left_out":${JSON.stringify(leftOut)}` : ''
      return `${account.slice(0, -1)},"tables":{${parts.join(',')}}${more}}`
    },
  }
}

type Noted = Readonly<Record<string, unknown>>

/** Metadata as objects: the trail masks by the names of members. */
const noted = ({ metadata, appMetadata, ...more }: UserChange): Noted => ({
  ...more,
  ...(metadata !== undefined && { metadata: JSON.parse(metadata) }),
  ...(appMetadata !== undefined && { app_metadata: JSON.parse(appMetadata) }),
})

const unknownUser = () => notFound('user not found', 'user_not_found')
