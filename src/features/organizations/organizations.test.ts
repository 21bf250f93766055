import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { openConnection } from '../../../src/db/protocol/driver.ts'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { type Answer, eventually, startServer } from '../../../test/kit/kit.ts'

const api = await startServer({
  config: { 'server.public_base_url': 'https://api.x.test', 'auth.anonymous_auth_enabled': true },
})
const mail = mailbox(api)
const elsewhere = await openConnection({ url: api.databaseUrl })
after(() => elsewhere.end())

type Person = { id: string; email: string; token: string; refreshToken: string }

async function person(email: string): Promise<Person> {
  const { token, refreshToken, user } = await api.signUp(email)
  await api.sql(`update svc.users set email_verified_at = now() where id = '${user.id}'`)
  return { id: user.id, email, token, refreshToken }
}

async function found(owner: Person, name = 'Acme'): Promise<string> {
  const made = await api.call('POST /api/orgs', { as: owner.token, json: { name } })
  assert.equal(made.status, 201)
  return made.body.id
}

const invite = (org: string, as: Person, email: string, role = 'member') =>
  api.call(`POST /api/orgs/${org}/invites`, { as: as.token, json: { email, role } })

const linkMailedTo = (email: string): Promise<URL> =>
  eventually(() => {
    const links = mail.mails(email).map(({ text }) => /https:[^\s)\]>]+#invite=[\w-]+/.exec(text)?.[0])
    return new URL(links.findLast((link) => link !== undefined) ?? '')
  })

const tokenMailedTo = async (email: string): Promise<string> => (await linkMailedTo(email)).hash.replace('#invite=', '')

const accept = (token: string, as: Person) => api.call(`POST /api/orgs/invites/${token}/accept`, { as: as.token })

async function join(org: string, owner: Person, joiner: Person, role = 'member'): Promise<void> {
  assert.equal((await invite(org, owner, joiner.email, role)).status, 201)
  assert.equal((await accept(await tokenMailedTo(joiner.email), joiner)).status, 200)
}

const roles = async (org: string, as: Person): Promise<Record<string, string>> => {
  const { body } = await api.call(`GET /api/orgs/${org}/members`, { as: as.token })
  return Object.fromEntries(body.map((member: { email: string; role: string }) => [member.email, member.role]))
}

test('make, rename, list and remove an organization', async () => {
  const ana = await person('ana@x.test')
  const made = await api.call('POST /api/orgs', { as: ana.token, json: { name: ' Acme ' } })
  assert.deepEqual([made.status, made.body.name, made.body.role], [201, 'Acme', 'owner'])
  const { id } = made.body
  const renamed = await api.call(`PATCH /api/orgs/${id}`, { as: ana.token, json: { name: 'Acme 2' } })
  assert.deepEqual([renamed.status, renamed.body.name], [200, 'Acme 2'])
  assert.deepEqual((await api.call('GET /api/orgs', { as: ana.token })).body, [renamed.body])
  const stranger = await person('stranger@x.test')
  for (const call of ['GET', 'DELETE'] as const) {
    const refused = await api.call(`${call} /api/orgs/${id}`, { as: stranger.token })
    assert.deepEqual([refused.status, refused.body.error], [404, 'organization_not_found'])
  }
  assert.equal((await api.call(`DELETE /api/orgs/${id}`, { as: ana.token })).status, 204)
  assert.deepEqual((await api.call('GET /api/orgs', { as: ana.token })).body, [])
  assert.equal((await api.call('GET /api/orgs')).status, 401)
})

test('a name carries no address to click on and no control characters', async () => {
  const { token } = await person('names@x.test')
  const make = async (name: string) => (await api.call('POST /api/orgs', { as: token, json: { name } })).status
  const addresses = [
    ...[
      'see https://evil.test',
      'evil.test',
      'www.evil',
      'evil.test/x',
      'evil.test?x',
      'evil.test:8080',
      '(evil.test)',
    ],
    ...['evil.test!', 'evil.test,now', 'evil.test_now', 'evil.test.', 'evil.test.2', 'evil.xn--p1ai', 'me@evil.test'],
    ...['evil。test', 'evil．test', 'evil｡test', 'evil\u2024test', 'evil.\ufe0ftest', 'ｅｖｉｌ.ｔｅｓｔ', 'müller.рф'],
    ...['10.0.0.1', 'https:evil', 'mailto:me', '💩.la', 'Node.js Team'],
  ]
  for (const name of [
    '',
    'x'.repeat(65),
    'a\nb',
    'a\u202eb',
    'a\ud800b',
    'a\u200bb',
    'evil\u200d.test',
    ...addresses,
  ]) {
    assert.equal(await make(name), 400, JSON.stringify(name))
  }
  const ordinary = [
    ...['Acme, Inc.', 'Dr. Foo', 'St. Louis', 'U.S. Steel', '.NET Foundation', 'A.I. Labs', 'Turnverein e.V.', 'v1.2'],
    ...[
      'Web 2.0',
      'Wait… what?',
      'Yahoo!',
      'Team: North',
      'a & b <script>',
      '🏢',
      'Łódź',
      'भारत',
      '1.2.3',
      'می\u200cخواهم',
      '👩\u200d🚀',
    ],
  ]
  for (const name of ordinary) assert.equal(await make(name), 201, JSON.stringify(name))
})

test('an invitation is for its address, once', async () => {
  const [owner, bea, other] = [await person('owner@x.test'), await person('bea@x.test'), await person('other@x.test')]
  const org = await found(owner)
  const made = await invite(org, owner, 'BEA@x.test')
  assert.deepEqual([made.status, made.body.email, made.body.role], [201, 'bea@x.test', 'member'])
  const link = await linkMailedTo('bea@x.test')
  assert.equal(link.origin + link.pathname, 'https://api.x.test/account')
  const token = await tokenMailedTo('bea@x.test')
  assert.equal((await accept(token, other)).status, 400)
  assert.equal((await accept('invented', bea)).status, 400)
  await api.sql(`update svc.users set email_verified_at = null where id = '${bea.id}'`)
  assert.equal((await accept(token, bea)).status, 400)
  await api.sql(`update svc.users set email_verified_at = now() where id = '${bea.id}'`)
  const race = await Promise.all(Array.from({ length: 10 }, () => accept(token, bea)))
  assert.deepEqual(race.map(({ status }) => status).sort(), [200, ...Array<number>(9).fill(400)])
  assert.deepEqual(await roles(org, bea), { 'owner@x.test': 'owner', 'bea@x.test': 'member' })
})

test('an invitation is judged by the role its inviter has when it is accepted', async () => {
  const [owner, admin] = [await person('io@x.test'), await person('ia@x.test')]
  const [one, two] = [await person('i1@x.test'), await person('i2@x.test')]
  const org = await found(owner)
  await join(org, owner, admin, 'admin')
  assert.equal((await invite(org, admin, one.email)).status, 201)
  assert.equal((await invite(org, admin, two.email)).status, 201)
  const tokens = [await tokenMailedTo(one.email), await tokenMailedTo(two.email)]
  const lower = { as: owner.token, json: { role: 'member' } }
  assert.equal((await api.call(`PATCH /api/orgs/${org}/members/${admin.id}`, lower)).status, 204)
  assert.equal((await accept(tokens[0] ?? '', one)).status, 400)
  assert.equal((await api.call(`DELETE /api/orgs/${org}/members/${admin.id}`, { as: owner.token })).status, 204)
  assert.equal((await accept(tokens[1] ?? '', two)).status, 400)
})

test('organizations, members and open invitations are bounded, also when the last place is taken at once', async () => {
  const [owner, one, two] = [await person('bo@x.test'), await person('b1@x.test'), await person('b2@x.test')]
  const org = await found(owner)
  const places = (answers: { status: number; body: { error?: string } }[]) =>
    answers.map(({ status, body }) => (status < 300 ? 'taken' : body.error)).sort()

  await api.sql(`insert into svc.org_invites (org_id, email, role, hash, invited_by, expires_at)
    select '${org}', 'i' || n || '@x.test', 'member', 'h' || n, '${owner.id}', now() + interval '1 day' from generate_series(1, 99) n`)
  const invited = await Promise.all(['a', 'b', 'c'].map((name) => invite(org, owner, `${name}.last@x.test`)))
  assert.deepEqual(places(invited), ['limit_reached', 'limit_reached', 'taken'])
  await api.sql(`delete from svc.org_invites where org_id = '${org}'`)

  for (const { email } of [one, two]) assert.equal((await invite(org, owner, email)).status, 201)
  const days = `extract(day from expires_at - created_at)::int as days from svc.org_invites where org_id = '${org}'`
  assert.deepEqual(await api.sql(`select distinct ${days}`), [{ days: '7' }])
  const tokens = [await tokenMailedTo(one.email), await tokenMailedTo(two.email)]
  await api.sql(`with people as (insert into svc.users (email) select 'm' || n || '@x.test' from generate_series(1, 998) n returning id)
    insert into svc.members (org_id, user_id, role) select '${org}', id, 'member' from people`)
  const accepted = await Promise.all([accept(tokens[0] ?? '', one), accept(tokens[1] ?? '', two)])
  assert.deepEqual(places(accepted), ['limit_reached', 'taken'])

  await api.sql(`with made as (insert into svc.organizations (name) select 'o' || n from generate_series(1, 98) n returning id)
    insert into svc.members (org_id, user_id, role) select id, '${owner.id}', 'owner' from made`)
  const made = await Promise.all(
    ['a', 'b', 'c'].map((name) => api.call('POST /api/orgs', { as: owner.token, json: { name } })),
  )
  assert.deepEqual(places(made), ['limit_reached', 'limit_reached', 'taken'])
})

test('only owners decide over a role at or above their own', async () => {
  const [owner, admin, admin2, member] = [
    await person('ro@x.test'),
    await person('ra@x.test'),
    await person('ra2@x.test'),
    await person('rm@x.test'),
  ]
  const org = await found(owner)
  await join(org, owner, admin, 'admin')
  await join(org, owner, admin2, 'admin')
  await join(org, admin, member)
  const statuses = async (...calls: Promise<{ status: number }>[]) => (await Promise.all(calls)).map((c) => c.status)
  const set = (as: Person, whom: Person, role: string) =>
    api.call(`PATCH /api/orgs/${org}/members/${whom.id}`, { as: as.token, json: { role } })
  const remove = (as: Person, whom: Person) => api.call(`DELETE /api/orgs/${org}/members/${whom.id}`, { as: as.token })
  assert.deepEqual(
    await statuses(
      invite(org, admin, 'new@x.test', 'admin'),
      invite(org, admin, 'new@x.test', 'owner'),
      invite(org, member, 'new@x.test', 'member'),
      set(admin, member, 'admin'),
      set(admin, admin, 'owner'),
      set(admin, admin2, 'member'),
      remove(admin, owner),
      remove(admin, admin2),
      remove(member, admin),
      api.call(`DELETE /api/orgs/${org}`, { as: admin.token }),
      api.call(`PATCH /api/orgs/${org}`, { as: member.token, json: { name: 'mine' } }),
      api.call(`GET /api/orgs/${org}/invites`, { as: member.token }),
    ),
    Array<number>(12).fill(403),
  )
  assert.equal((await set(owner, member, 'king')).status, 400)
  assert.equal((await set(owner, member, 'owner')).status, 204)
  assert.equal((await set(owner, owner, 'admin')).status, 204)
})

test('an invitation to a role above the own is not replaced either', async () => {
  const [owner, admin] = [await person('vo@x.test'), await person('va@x.test')]
  const heir = await person('vh@x.test')
  const org = await found(owner)
  await join(org, owner, admin, 'admin')
  assert.equal((await invite(org, owner, heir.email, 'owner')).status, 201)
  const token = await tokenMailedTo(heir.email)
  for (const role of ['member', 'admin']) {
    const refused = await invite(org, admin, heir.email, role)
    assert.deepEqual([refused.status, refused.body.error], [403, 'forbidden'])
  }
  assert.equal((await accept(token, heir)).status, 200)
  assert.equal((await roles(org, heir))[heir.email], 'owner')
  assert.equal((await invite(org, owner, 'vx@x.test', 'member')).status, 201)
  assert.equal((await invite(org, admin, 'vx@x.test', 'member')).status, 201, 'below the own it is')
})

test('anonymous accounts invite nobody, those that have not verified an address yet may', async () => {
  const guest = (await api.call('POST /api/auth/anonymous')).body
  const fresh = await api.signUp('fresh@x.test')
  const invites = async (as: string) => {
    const { id } = (await api.call('POST /api/orgs', { as, json: { name: 'Acme' } })).body
    return api.call(`POST /api/orgs/${id}/invites`, { as, json: { email: 'any@x.test', role: 'member' } })
  }
  const refused = await invites(guest.token)
  assert.deepEqual([refused.status, refused.body.error], [403, 'account_is_anonymous'])
  assert.equal((await invites(fresh.token)).status, 201)
  await tokenMailedTo('any@x.test')
})

test('the last owner cannot leave, also when two leave at once', async () => {
  const [one, two] = [await person('l1@x.test'), await person('l2@x.test')]
  const org = await found(one)
  const leave = (as: Person) => api.call(`POST /api/orgs/${org}/leave`, { as: as.token })
  assert.equal((await leave(one)).status, 409)
  await join(org, one, two, 'owner')
  const both = await Promise.all([leave(one), leave(two)])
  assert.deepEqual(both.map(({ status }) => status).sort(), [204, 409])
})

test('ownership is handed over; a deleted last owner leaves it to the oldest member', async () => {
  const [one, two, three] = [await person('t1@x.test'), await person('t2@x.test'), await person('t3@x.test')]
  const org = await found(one)
  await join(org, one, two)
  await join(org, one, three)
  const transfer = { as: one.token, json: { user_id: two.id } }
  assert.equal((await api.call(`POST /api/orgs/${org}/transfer`, transfer)).status, 204)
  assert.deepEqual(await roles(org, two), { 't1@x.test': 'admin', 't2@x.test': 'owner', 't3@x.test': 'member' })
  assert.equal((await api.call('DELETE /api/auth/me', { as: two.token })).status, 204)
  assert.deepEqual(await roles(org, three), { 't1@x.test': 'owner', 't3@x.test': 'member' })
})

/** What a call answers that is under way while an account is being deleted by another process. */
async function duringDeletionOf(gone: Person, call: () => Promise<Answer>): Promise<number> {
  await elsewhere.query(`begin; delete from svc.users where id = '${gone.id}'`)
  let isAnswered = false
  const answer = call().finally(() => {
    isAnswered = true
  })
  await eventually(async () => {
    const waiting = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    assert.ok(isAnswered || (await api.sql(waiting)).length > 0)
  })
  await elsewhere.query('commit')
  return (await answer).status
}

test('an organization keeps an owner when accounts are deleted while others leave or hand over', async () => {
  const heirs = async (name: string): Promise<[string, Person, Person, Person]> => {
    const [one, two, three] = [
      await person(`${name}1@x.test`),
      await person(`${name}2@x.test`),
      await person(`${name}3@x.test`),
    ]
    const org = await found(one)
    await join(org, one, two, 'owner')
    await join(org, one, three)
    return [org, one, two, three]
  }
  const [org1, a1, a2, a3] = await heirs('da')
  assert.equal(await duringDeletionOf(a1, () => api.call('DELETE /api/auth/me', { as: a2.token })), 204)
  assert.deepEqual(await roles(org1, a3), { 'da3@x.test': 'owner' })

  const [org2, b1, b2] = await heirs('db')
  assert.equal(await duringDeletionOf(b1, () => api.call(`POST /api/orgs/${org2}/leave`, { as: b2.token })), 409)
  assert.deepEqual(await roles(org2, b2), { 'db2@x.test': 'owner', 'db3@x.test': 'member' })

  const [org3, c1, c2, c3] = await heirs('dc')
  assert.equal((await api.call(`POST /api/orgs/${org3}/leave`, { as: c2.token })).status, 204)
  const transfer = { as: c1.token, json: { user_id: c3.id } }
  assert.equal(await duringDeletionOf(c3, () => api.call(`POST /api/orgs/${org3}/transfer`, transfer)), 404)
  assert.deepEqual(await roles(org3, c1), { 'dc1@x.test': 'owner' })
})

test('policies see the organizations of now, and the active one as a claim', async () => {
  const [owner, member] = [await person('po@x.test'), await person('pm@x.test')]
  const org = await found(owner)
  await api.sql(`
    create table docs (id int primary key, org uuid not null);
    insert into docs values (1, '${org}'), (2, gen_random_uuid());
    alter table docs enable row level security;
    create policy member on docs using (org = any(svc.org_ids()));
    create function active() returns text language sql stable as $$ select svc.claims() ->> 'org' $$;
    create function my_role(org uuid) returns text language sql stable as $$ select svc.org_role(org) $$`)
  const ids = async (as: string) =>
    (await api.call('GET /api/collections/docs', { as })).body.items.map(({ id }: { id: number }) => id)
  assert.deepEqual(await ids(member.token), [])
  await join(org, owner, member)
  assert.deepEqual(await ids(member.token), [1])
  const role = await api.call('POST /api/rpc/my_role', { as: member.token, json: { org } })
  assert.equal(role.body, 'member')

  const active = async (as: string) => (await api.call('POST /api/rpc/active', { as })).body
  const chosen = await api.call('POST /api/auth/org', { as: member.token, json: { org } })
  assert.equal(chosen.status, 200)
  assert.deepEqual([await active(member.token), await active(chosen.body.token)], [null, org])
  const refresh = { json: { refreshToken: member.refreshToken } }
  const renewed = await api.call('POST /api/auth/refresh', refresh)
  assert.equal(await active(renewed.body.token), org)
  assert.equal((await api.call('POST /api/auth/org', { as: owner.token, json: { org: owner.id } })).status, 404)

  assert.equal((await api.call(`DELETE /api/orgs/${org}/members/${member.id}`, { as: owner.token })).status, 204)
  assert.deepEqual([await ids(chosen.body.token), await active(chosen.body.token)], [[], null])
  const later = await api.call('POST /api/auth/refresh', { json: { refreshToken: renewed.body.refreshToken } })
  assert.equal(later.status, 200)
  const claims = JSON.parse(Buffer.from(later.body.token.split('.')[1], 'base64url').toString())
  assert.equal('org' in claims, false, 'nor do others who verify the token hear of it')
})
