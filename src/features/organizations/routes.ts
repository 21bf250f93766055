import { emailOf } from '../../core/contact/email-address.ts'
import { userOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { json, noContentAfter, type Route, route } from '../../http/route.ts'
import { createOrganizationRules, type OrganizationDeps, type Organizations } from './organizations.ts'

const organization = t.object({
  id: t.uuid(),
  name: t.string(),
  role: t.string({ description: 'of the caller' }),
  created_at: t.time(),
})
const member = t.object({ user_id: t.uuid(), email: t.string(), role: t.string(), created_at: t.time() })
const invite = t.object({
  id: t.uuid(),
  email: t.string({ format: 'email' }),
  role: t.string(),
  created_at: t.time(),
  expires_at: t.time(),
})
const name = t.object({ name: t.string({ description: 'at most 64 characters' }) })
const role = t.string({ description: 'one of auth.org_roles' })
const org = { id: t.id('organization') }
const orgMember = { ...org, user: t.id('user') }

/** Organisations, their members and invitations. */
export function createOrganizations(deps: OrganizationDeps): { routes: Route[] } {
  const rules = createOrganizationRules(deps)
  return {
    routes: [...organizationRoutes(rules), ...memberRoutes(rules), ...inviteRoutes(rules), ...activeRoutes(rules)],
  }
}

const organizationRoutes = (rules: Organizations): Route[] => [
  route('GET /api/orgs', {
    summary: 'Own organizations',
    auth: 'user',
    answers: { 200: t.array(organization) },
    handle: async ({ who }) => json(200, await rules.ofUser(userOf(who).id)),
  }),
  route('POST /api/orgs', {
    summary: 'Make an organization; its maker owns it',
    auth: 'user',
    body: name,
    answers: { 201: organization },
    handle: async ({ who, body }) => json(201, await rules.create(userOf(who), body.name)),
  }),
  route('GET /api/orgs/{id}', {
    summary: 'An own organization',
    auth: 'user',
    params: org,
    answers: { 200: organization },
    handle: async ({ who, params }) => json(200, await rules.get(params.id, userOf(who).id)),
  }),
  route('PATCH /api/orgs/{id}', {
    summary: 'Rename an organization',
    auth: 'user',
    params: org,
    body: name,
    answers: { 200: organization },
    handle: async ({ who, params, body }) => json(200, await rules.rename(params.id, userOf(who), body.name)),
  }),
  route('DELETE /api/orgs/{id}', {
    summary: 'Remove an organization; for owners',
    auth: 'user',
    params: org,
    answers: { 204: null },
    handle: ({ who, params }) => noContentAfter(rules.remove(params.id, userOf(who))),
  }),
  route('POST /api/orgs/{id}/leave', {
    summary: 'Leave an organization; the last owner cannot',
    auth: 'user',
    params: org,
    bodyKind: 'none',
    answers: { 204: null },
    handle: ({ who, params }) => noContentAfter(rules.leave(params.id, userOf(who))),
  }),
  route('POST /api/orgs/{id}/transfer', {
    summary: 'Hand the ownership over to another member',
    auth: 'user',
    params: org,
    body: t.object({ user_id: t.uuid() }),
    answers: { 204: null },
    handle: ({ who, params, body }) => noContentAfter(rules.transfer(params.id, userOf(who), body.user_id)),
  }),
]

const activeRoutes = (rules: Organizations): Route[] => [
  route('POST /api/auth/org', {
    summary: 'Choose the active organization of the session; answers a token that carries it',
    auth: 'user',
    body: t.object({ org: t.nullable(t.uuid()) }),
    answers: { 200: t.object({ token: t.string() }) },
    handle: async ({ who, body }) => json(200, { token: await rules.activate(userOf(who), body.org) }),
  }),
]

const memberRoutes = (rules: Organizations): Route[] => [
  route('GET /api/orgs/{id}/members', {
    summary: 'Members of an own organization',
    auth: 'user',
    params: org,
    answers: { 200: t.array(member) },
    handle: async ({ who, params }) => json(200, await rules.members(params.id, userOf(who))),
  }),
  route('PATCH /api/orgs/{id}/members/{user}', {
    summary: 'Change the role of a member',
    auth: 'user',
    params: orgMember,
    body: t.object({ role }),
    answers: { 204: null },
    handle: ({ who, params, body }) => noContentAfter(rules.setRole(params.id, userOf(who), params.user, body.role)),
  }),
  route('DELETE /api/orgs/{id}/members/{user}', {
    summary: 'Remove a member',
    auth: 'user',
    params: orgMember,
    answers: { 204: null },
    handle: ({ who, params }) => noContentAfter(rules.removeMember(params.id, userOf(who), params.user)),
  }),
]

const inviteRoutes = (rules: Organizations): Route[] => [
  route('GET /api/orgs/{id}/invites', {
    summary: 'Open invitations of an organization',
    auth: 'user',
    params: org,
    answers: { 200: t.array(invite) },
    handle: async ({ who, params }) => json(200, await rules.invites(params.id, userOf(who))),
  }),
  route('POST /api/orgs/{id}/invites', {
    summary: 'Invite an address; the mail has a link that is good once, for seven days',
    auth: 'user',
    params: org,
    body: t.object({ email: t.string({ format: 'email' }), role }),
    answers: { 201: invite },
    handle: async ({ who, params, body }) =>
      json(201, await rules.invite(params.id, userOf(who), emailOf(body.email), body.role)),
  }),
  route('DELETE /api/orgs/{id}/invites/{invite}', {
    summary: 'Withdraw an invitation',
    auth: 'user',
    params: { ...org, invite: t.id('invitation') },
    answers: { 204: null },
    handle: ({ who, params }) => noContentAfter(rules.withdrawInvite(params.id, userOf(who), params.invite)),
  }),
  route('POST /api/orgs/invites/{token}/accept', {
    summary: 'Join by an invitation to the own verified address',
    auth: 'user',
    params: { token: t.string() },
    bodyKind: 'none',
    answers: { 200: organization },
    handle: async ({ who, params }) => json(200, await rules.accept(userOf(who), params.token)),
  }),
]
