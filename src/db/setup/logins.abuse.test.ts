import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startPrivateCluster } from '../../../test/kit/cluster.ts'
import { type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { openConnection } from '../protocol/driver.ts'

const cluster = await startPrivateCluster()
const run = async (url: string, ...texts: string[]) => {
  const client = await openConnection({ url })
  try {
    let rows: Record<string, string>[] = []
    for (const text of texts) ({ rows } = await client.query(text))
    return rows
  } finally {
    await client.end()
  }
}
/** Only PostgreSQL itself may enter the folder of its rules. */
const letIn = async (...rules: string[]) => {
  const [{ hba_file: file = '' } = {}] = await run(cluster.url, 'show hba_file')
  const lines = rules.map((rule) => `('${rule}')`).join()
  await run(cluster.url, `copy (values ${lines}) to '${file}'`, 'select pg_reload_conf()')
}
const addressOf = (database: string, user = 'postgres') =>
  cluster.url.replace(/^(postgres(?:ql)?:\/\/)[^@]*@([^/]*)\/[^?]*/, `$1${user}@$2/${database}`)
const start = (url: string) => startServer({ config: { 'database.url': url } })
const warningsOf = async (api: InProcessServer): Promise<string[]> =>
  (await api.call('GET /api/admin/status', { as: 'admin' })).body.warnings ?? []
/** The logins of the callers' connections of a server. */
const callersOf = async (api: InProcessServer, database: string): Promise<string[]> => {
  assert.equal((await api.call('GET /api/collections/notes')).status, 200)
  const found = await run(
    cluster.url,
    `select distinct usename from pg_stat_activity where datname = '${database}' and usename like 'svc_auth%'`,
  )
  return found.map(({ usename = '' }) => usename)
}
/** The token of a new administrator. */
const administrator = async (api: InProcessServer, role: string): Promise<string> => {
  const [email, password] = [`${role}@x.test`, 'a password of their own']
  await api.call('POST /api/admin/admins', { as: 'admin', json: { email, password, role } })
  return (await api.call('POST /api/admin/auth', { json: { email, password } })).body.token
}
const sqlAs = (api: InProcessServer, as: string, query: string) =>
  api.call('POST /api/admin/sql', { as, json: { query } })
const NOTES = 'create table notes (id int primary key); insert into notes values (1)'

test('a login with CREATEROLE that is no superuser serves callers', async () => {
  await run(cluster.url, 'create role operator login createrole', 'create database plain owner operator')
  await run(addressOf('plain', 'operator'), NOTES)
  const api = await start(addressOf('plain', 'operator'))
  assert.deepEqual(await callersOf(api, 'plain'), ['svc_authenticator'])
  const { status, body } = await api.call('GET /api/collections/notes/1')
  assert.deepEqual([status, body], [200, { id: 1 }])
  const user = await api.signUp('ana@x.test')
  assert.equal((await api.call('GET /api/collections/notes/1', { as: user.token })).status, 200)
  assert.deepEqual(
    (await warningsOf(api)).filter((warning) => /become|login of their own/.test(warning)),
    [],
  )
  // It may not make logins that read past row security: its own role is the owner's, and lesser administrators have none.
  const [owner, lesser] = [await administrator(api, 'owner'), await administrator(api, 'operator')]
  assert.equal((await api.call('GET /api/collections/notes/1', { as: owner })).status, 200)
  assert.deepEqual((await sqlAs(api, owner, 'select current_user')).body.rows, [['operator']])
  for (const answer of [
    await api.call('GET /api/collections/notes/1', { as: lesser }),
    await sqlAs(api, lesser, 'select 1'),
  ]) {
    assert.deepEqual([answer.status, answer.body.error], [403, 'insufficient_role'])
  }
  assert.equal((await warningsOf(api)).filter((each) => each.startsWith('administrators who are no owners')).length, 1)
  await api.stop()
})

test('where passwords are required, each database has a login of its own, and no server takes it from another', async () => {
  await letIn('local all postgres trust', 'local all all scram-sha-256')
  await run(cluster.url, 'create database one', 'create database two')
  const servers: Record<string, InProcessServer[]> = {}
  for (const name of ['one', 'two']) {
    await run(addressOf(name), NOTES)
    servers[name] = [await start(addressOf(name)), await start(addressOf(name))]
  }
  for (const [name, started] of Object.entries(servers)) {
    const [{ oid } = {}] = await run(cluster.url, `select oid from pg_database where datname = '${name}'`)
    for (const api of started) {
      assert.deepEqual(await callersOf(api, name), [`svc_authenticator_${oid}`])
      assert.deepEqual(
        (await warningsOf(api)).filter((warning) => warning.includes('login of their own')),
        [],
      )
    }
  }
  for (const api of Object.values(servers).flat()) await api.stop()
})

test('where passwords are required, administrators have logins with passwords of their own', async () => {
  const [{ oid } = {}] = await run(cluster.url, `select oid from pg_database where datname = 'one'`)
  for (const start_ of [1, 2]) {
    const api = await start(addressOf('one'))
    for (const role of ['operator', 'viewer']) {
      const token = await administrator(api, role)
      assert.equal((await api.call('GET /api/collections/notes/1', { as: token })).status, 200, `${start_}`)
      const { body } = await sqlAs(api, token, 'select session_user')
      assert.deepEqual(body.rows, [[`svc_${role}_sql_${oid}`]])
    }
    assert.equal(
      (await api.call('POST /api/collections/notes', { as: 'admin', json: { id: 10 + start_ } })).status,
      201,
    )
    await api.stop()
  }
  const sessions = await run(
    cluster.url,
    `select rolname from pg_roles where rolname like 'svc\\_admin\\_%\\_${oid}' order by 1`,
  )
  assert.deepEqual(
    sessions.map(({ rolname }) => rolname),
    [`svc_admin_reader_${oid}`, `svc_admin_writer_${oid}`],
  )
})

test('what callers write is never logged as the work of the operator, whatever their login is called', async () => {
  await run(cluster.url, 'create database signed')
  const address = addressOf('signed')
  await run(
    address,
    NOTES,
    'grant insert on notes to public',
    `create function record_note(id int) returns void language sql security definer as 'insert into notes values (id)'`,
    `create function forge(id int) returns void language plpgsql as $$
    begin
      perform set_config('svc.actor', '', true);
      set local role none;
      perform record_note(id);
    end $$`,
  )
  const api = await start(address)
  await run(address, `select svc.watch('notes')`)
  const [{ oid } = {}] = await run(cluster.url, `select oid from pg_database where datname = 'signed'`)
  assert.deepEqual(await callersOf(api, 'signed'), [`svc_authenticator_${oid}`])
  assert.equal((await api.call('POST /api/rpc/forge', { json: { id: 2 } })).status, 204)

  const others = ['svc_authenticator_1', 'svc_authenticator_x', 'svc_authenticator_1x', 'my_svc_authenticator']
  for (const [i, name] of others.entries()) {
    await run(
      address,
      `create role ${name}`,
      `set session authorization ${name}`,
      `insert into notes values (${i + 3})`,
    )
  }
  const logged = await run(address, `select actor ->> 'kind' as kind from svc.changes order by id`)
  assert.deepEqual(
    logged.map(({ kind }) => kind),
    ['unknown', 'unknown', 'system', 'system', 'system'],
  )
  await api.stop()
})

test('a login that became more than a login is not used, and the server says why', async () => {
  const [{ oid } = {}] = await run(cluster.url, `select oid from pg_database where datname = 'one'`)
  const login = `svc_authenticator_${oid}`
  await run(cluster.url, 'create role boss superuser')
  for (const [might, none] of [
    [`alter role ${login} superuser`, `alter role ${login} nosuperuser`],
    [`alter role ${login} bypassrls`, `alter role ${login} nobypassrls`],
    [`grant boss to ${login}`, `revoke boss from ${login}`],
  ] as const) {
    await run(cluster.url, might)
    const api = await start(addressOf('one'))
    assert.deepEqual(await callersOf(api, 'one'), [])
    const [warning = ''] = (await warningsOf(api)).filter((each) => each.includes('login of their own'))
    assert.match(warning, new RegExp(`the role ${login} must log in, not be a superuser`))
    await api.stop()
    await run(cluster.url, none)
  }
  const again = await start(addressOf('one'))
  assert.deepEqual(await callersOf(again, 'one'), [login])
  await again.stop()
})

test('where no such login is let in, the server says so and serves callers as itself', async () => {
  await letIn('local all postgres trust')
  await run(cluster.url, 'create database closed')
  await run(addressOf('closed'), NOTES)
  const api = await start(addressOf('closed'))
  assert.deepEqual(await callersOf(api, 'closed'), [])
  assert.equal((await warningsOf(api)).filter((warning) => warning.includes('login of their own')).length, 1)
  await api.stop()
})
