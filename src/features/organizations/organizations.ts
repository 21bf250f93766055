import { AppError, badRequest, notFound } from '../../core/errors.ts'
import { SYSTEM, type UserIdentity } from '../../core/identity.ts'
import { randomToken, sha256 } from '../../core/secret.ts'
import type { Db, Tx } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import type { QueueMail } from '../../identity/mail-links.ts'
import { lockCaller } from '../../identity/users.ts'
import { organizationName } from './name.ts'
import { insufficientRole, OrgRoles, OWNER } from './roles.ts'
import * as q from './sql.ts'

const MAX_ORGANIZATIONS = 100
const MAX_MEMBERS = 1_000
const MAX_INVITES = 100
const INVITE_SECONDS = 7 * 86_400

export type OrganizationDeps = {
  db: Db
  config: { org_roles: readonly string[]; org_invite_url: string }
  publicBaseUrl: () => string
  queueMail: QueueMail
  wakeMail: () => void
  /** An access token of a session, with its claims of now. */
  tokenOf: (sessionId: string) => Promise<string>
}

export type Organizations = ReturnType<typeof createOrganizationRules>

/** Every rule is judged in the transaction that writes, under the locks of the caller's account and then of the organisation. */
export function createOrganizationRules(deps: OrganizationDeps) {
  const { db, config } = deps
  const roles = new OrgRoles(config.org_roles)

  /** Runs `work` with the caller's role of now; an organisation of others is a missing one. */
  const asMember = <T>(orgId: string, who: UserIdentity, work: (tx: Tx, role: string) => Promise<T>): Promise<T> =>
    db.tx(SYSTEM, async (tx) => {
      await lockCaller(tx, who)
      if ((await tx.run(q.lockOrganization(orgId))) === 0) throw unknownOrganization()
      return work(tx, await roleIn(tx, orgId, who.id, unknownOrganization))
    })

  return {
    ofUser: (userId: string) => db.rows<q.Organization>(SYSTEM, q.organizationsOf(userId)),
    get: (orgId: string, userId: string) => oneOrganization(db, orgId, userId),

    async create(who: UserIdentity, name: string): Promise<q.Organization> {
      const checked = organizationName(name)
      const orgId = await db.tx(SYSTEM, async (tx) => {
        await requireRoomForMembership(tx, who)
        const [made] = await tx.rows<{ id: string }>(q.insertOrganization(checked))
        if (!made) throw new AppError('internal', 'failed to create the organization')
        await tx.run(q.insertMember(made.id, who.id, OWNER))
        return made.id
      })
      return oneOrganization(db, orgId, who.id)
    },

    async rename(orgId: string, who: UserIdentity, name: string): Promise<q.Organization> {
      const checked = organizationName(name)
      await asMember(orgId, who, async (tx, role) => {
        roles.requireManager(role)
        await tx.run(q.renameOrganization(orgId, checked))
      })
      return oneOrganization(db, orgId, who.id)
    },

    remove: (orgId: string, who: UserIdentity) =>
      asMember(orgId, who, async (tx, role) => {
        requireOwner(role)
        await tx.run(q.deleteOrganization(orgId))
      }),

    leave: (orgId: string, who: UserIdentity) =>
      asMember(orgId, who, async (tx, role) => {
        if (role === OWNER) await requireOtherOwner(tx, orgId)
        await tx.run(q.deleteMember(orgId, who.id))
      }),

    /** The caller hands its ownership over. */
    transfer: (orgId: string, who: UserIdentity, userId: string) =>
      asMember(orgId, who, async (tx, role) => {
        requireOwner(role)
        await setRole(tx, orgId, who.id, roles.second)
        await setRole(tx, orgId, userId, OWNER)
      }),

    async members(orgId: string, who: UserIdentity): Promise<q.Member[]> {
      await oneOrganization(db, orgId, who.id)
      return db.rows<q.Member>(SYSTEM, q.membersOf(orgId))
    },

    setRole: (orgId: string, who: UserIdentity, userId: string, role: string) =>
      asMember(orgId, who, async (tx, own) => {
        const before = await roleIn(tx, orgId, userId, unknownMember)
        roles.requireOver(own, before)
        roles.requireOver(own, roles.check(role))
        if (before === OWNER && role !== OWNER) await requireOtherOwner(tx, orgId)
        await setRole(tx, orgId, userId, role)
      }),

    removeMember: (orgId: string, who: UserIdentity, userId: string) =>
      asMember(orgId, who, async (tx, own) => {
        const role = await roleIn(tx, orgId, userId, unknownMember)
        roles.requireOver(own, role)
        if (role === OWNER) await requireOtherOwner(tx, orgId)
        await tx.run(q.deleteMember(orgId, userId))
      }),

    invites: (orgId: string, who: UserIdentity) =>
      asMember(orgId, who, (tx, role) => {
        roles.requireManager(role)
        return tx.rows<q.Invite>(q.invitesOf(orgId))
      }),

    async invite(orgId: string, who: UserIdentity, email: string, role: string): Promise<q.Invite> {
      requireCredentials(who)
      const token = randomToken()
      const { name } = await oneOrganization(db, orgId, who.id)
      const made = await asMember(orgId, who, async (tx, own) => {
        roles.requireOver(own, roles.check(role))
        const [known] = await tx.rows<q.Invite>(q.openInvite(orgId, email))
        if (known) roles.requireOver(own, known.role)
        await requireFewer(tx, q.countInvites(orgId), MAX_INVITES, 'too many open invitations')
        const given = { orgId, email, role, hash: sha256(token), invitedBy: who.id, seconds: INVITE_SECONDS }
        const variables = { ActionURL: inviteUrl(token), Organization: name, Inviter: who.email }
        const isMailed = (await tx.run(deps.queueMail('auth.org_invitation', email, variables))) > 0
        // The address has had its mails of this hour: the link that it was sent stays good.
        if (known && !isMailed) return known
        const [invite] = await tx.rows<q.Invite>(q.insertInvite(given))
        return invite
      })
      if (!made) throw new AppError('internal', 'failed to create the invitation')
      deps.wakeMail()
      return made
    },

    withdrawInvite: (orgId: string, who: UserIdentity, inviteId: string) =>
      asMember(orgId, who, async (tx, own) => {
        roles.requireManager(own)
        const [gone] = await tx.rows<{ role: string }>(q.deleteInvite(orgId, inviteId))
        if (!gone) throw notFound('invitation not found', 'invitation_not_found')
        roles.requireOver(own, gone.role)
      }),

    /** Judged now: the inviter's role may have changed, and the address must be the caller's own and verified. */
    async accept(who: UserIdentity, token: string): Promise<q.Organization> {
      const hash = sha256(token)
      type Open = { orgId: string; email: string; role: string; invitedBy: string }
      const orgId = await db.tx(SYSTEM, async (tx) => {
        await requireRoomForMembership(tx, who)
        const [open] = await tx.rows<Open>(q.inviteByHash(hash))
        if (!open) throw badInvite()
        await tx.run(q.lockOrganization(open.orgId))
        const [address] = await tx.rows<{ email: string }>(q.verifiedEmail(who.id))
        if (address?.email !== open.email) throw badInvite()
        const inviter = await roleIn(tx, open.orgId, open.invitedBy, badInvite)
        if (!roles.mayDecideOver(inviter, open.role)) throw badInvite()
        if ((await tx.run(q.spendInvite(hash))) === 0) throw badInvite()
        await requireFewer(tx, q.countMembers(open.orgId), MAX_MEMBERS, 'the organization has too many members')
        await tx.run(q.insertMember(open.orgId, who.id, open.role))
        return open.orgId
      })
      return oneOrganization(db, orgId, who.id)
    },

    /** Tokens of the session made from now on carry the organisation. */
    async activate(who: UserIdentity, orgId: string | null): Promise<string> {
      if ((await db.run(SYSTEM, q.setActive(who.sessionId, orgId))) === 0) throw unknownOrganization()
      return deps.tokenOf(who.sessionId)
    },
  }

  function inviteUrl(token: string): string {
    const url = config.org_invite_url || `${deps.publicBaseUrl()}/account`
    return `${url}#invite=${token}`
  }
}

async function oneOrganization(db: Db, orgId: string, userId: string): Promise<q.Organization> {
  const [found] = await db.rows<q.Organization>(SYSTEM, q.organizationOf(orgId, userId))
  if (!found) throw unknownOrganization()
  return found
}

async function roleIn(tx: Tx, orgId: string, userId: string, missing: () => AppError): Promise<string> {
  const [member] = await tx.rows<{ role: string }>(q.roleOf(orgId, userId))
  if (!member) throw missing()
  return member.role
}

async function setRole(tx: Tx, orgId: string, userId: string, role: string): Promise<void> {
  if ((await tx.run(q.setRole(orgId, userId, role))) === 0) throw unknownMember()
}

/** An invitation is a mail to a stranger, in the name of its sender. */
function requireCredentials(who: UserIdentity): void {
  if (who.isAnonymous) throw new AppError('account_is_anonymous', 'link your account before you invite others')
}

async function requireFewer(tx: Tx, count: Sql, max: number, message: string): Promise<void> {
  const [found] = await tx.rows<{ count: number }>(count)
  if ((found?.count ?? 0) >= max) throw new AppError('limit_reached', message)
}

/** Locks the account first, so that parallel calls cannot pass the bound together. */
async function requireRoomForMembership(tx: Tx, user: UserIdentity): Promise<void> {
  await lockCaller(tx, user)
  await requireFewer(tx, q.countOrganizations(user.id), MAX_ORGANIZATIONS, 'too many organizations')
}

async function requireOtherOwner(tx: Tx, orgId: string): Promise<void> {
  const [owners] = await tx.rows<{ count: number }>(q.countOwners(orgId))
  if ((owners?.count ?? 0) < 2) throw new AppError('wrong_state', 'the last owner cannot leave')
}

function requireOwner(role: string): void {
  if (role !== OWNER) throw insufficientRole()
}

const unknownOrganization = (): AppError => notFound('organization not found', 'organization_not_found')
const unknownMember = (): AppError => notFound('member not found', 'member_not_found')
const badInvite = (): AppError => badRequest('invalid or expired invitation', 'invalid_link')
