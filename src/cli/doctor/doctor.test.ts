import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { atEnd } from '../../../test/kit/at-end.ts'
import { startPrivateCluster } from '../../../test/kit/cluster.ts'
import { startServer } from '../../../test/kit/kit.ts'
import { loadConfig } from '../../config/config.ts'
import { openConnection } from '../../db/protocol/driver.ts'
import { examineDatabase } from './database.ts'
import { doctor as examined } from './doctor.ts'

const folder = mkdtempSync(join(tmpdir(), 'svc-doctor-'))
const dataDir = join(folder, 'data')
mkdirSync(dataDir, { mode: 0o700 })
after(() => rmSync(folder, { recursive: true, force: true }))

let url: string
let client: pg.Client

before(async () => {
  const cluster = await startPrivateCluster()
  url = cluster.url
  const server = await startServer({ config: { 'database.url': url } })
  await server.stop()
  client = await openConnection({ url })
  atEnd(() => client.end())
})

type Item = { check: string; state: string; message: string; fix: string }

/** `svc doctor --json` in a folder of its own, with these lines of configuration. */
async function doctor(
  lines = '',
  env: Record<string, string> = {},
): Promise<{ code: number; findings: Item[]; all: Item[] }> {
  const file = join(folder, 'svc.toml')
  writeFileSync(file, `data_dir = "${dataDir}"\n${lines}\n`)
  let out = ''
  const flags = lines.includes('[database]') ? {} : { 'database-url': url }
  const code = await examined({
    ...{ args: [], usage: '', argv: [], json: true, url: undefined, adminToken: undefined },
    flag: () => undefined,
    onServing: () => {},
    config: () => loadConfig({ file, env, flags }),
    print: (line) => {
      out += line
    },
  })
  const { items } = JSON.parse(out) as { items: Item[] }
  return { code, all: items, findings: items.filter(({ state }) => state === 'finding') }
}

/** The fault is found under this check and in these words, with a fix, and it is the only one. */
async function finds(found: Promise<{ code: number; findings: Item[] }>, check: string, words: RegExp): Promise<void> {
  const { code, findings } = await found
  assert.equal(code, 1)
  assert.deepEqual(
    findings.map((item) => item.check),
    [check],
    JSON.stringify(findings),
  )
  assert.match(findings[0]?.message ?? '', words)
  assert.notEqual(findings[0]?.fix, '')
}

const planted = async (plant: string, remove: string, check: string, words: RegExp, lines = ''): Promise<void> => {
  for (const statement of plant.split(';\n')) await client.query(statement)
  try {
    await finds(doctor(lines), check, words)
  } finally {
    for (const statement of remove.split(';\n')) await client.query(statement)
  }
}

const setting = (name: string, value: string): [string, string] => [
  `alter system set ${name} = '${value}';\nselect pg_reload_conf();\nselect pg_sleep(0.3)`,
  `alter system reset ${name};\nselect pg_reload_conf();\nselect pg_sleep(0.3)`,
]

test('a healthy server has no finding, and every check is named', async () => {
  const { code, all, findings } = await doctor()
  assert.deepEqual(findings, [])
  assert.equal(code, 0)
  for (const check of [
    'configuration',
    'roles',
    'extensions',
    'replication',
    'disk',
    'clock',
    'certificates',
    'open tables',
  ]) {
    assert.ok(
      all.some((item) => item.check === check && item.state === 'ok'),
      check,
    )
  }
})

test('faults of the configuration, the data directory and the disk', async () => {
  await finds(doctor('nonsense = 1'), 'configuration', /unknown configuration key: nonsense/)
  await finds(doctor('', { SVC_SERVER_PROT: '1' }), 'configuration', /unknown environment variable: SVC_SERVER_PROT/)
  await finds(doctor('[server]\nhost = "0.0.0.0"\n[api]\nanonymous = "none"'), 'configuration', /listens on 0\.0\.0\.0/)
  await finds(doctor('[server]\npublic_base_url = "http://example.org"'), 'configuration', /unencrypted/)
  await finds(doctor('[server]\ntrusted_proxies = ["0.0.0.0/0"]'), 'configuration', /claim any address/)
  await finds(doctor('[admin]\npassword = "short"'), 'configuration', /fewer than 12 characters/)
  chmodSync(dataDir, 0o777)
  await finds(doctor(), 'data directory', /other accounts of this machine may write/)
  chmodSync(dataDir, 0o700)
  await finds(doctor('[storage]\ndisk_reserve = "900000GB"'), 'disk', /are free for .*, less than 900000\.0 GB/)
  // What is free is told in units that say something; only Linux has a file system without room at hand.
  if (process.platform === 'linux')
    await finds(
      doctor('[storage]\nlocal_path = "/proc"\ndisk_reserve = "300MB"'),
      'disk',
      /^0 MB are free for \/proc, less than 300 MB/,
    )
})

test('faults of certificates', async () => {
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const make = (days: string, name = key) =>
    execFileSync(
      'openssl',
      [
        'req',
        '-x509',
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:P-256',
        '-nodes',
        '-subj',
        '/CN=localhost',
        '-days',
        days,
        '-out',
        cert,
        '-keyout',
        name,
      ],
      { stdio: 'ignore' },
    )
  const lines = `[server]\ntls_cert_file = "${cert}"\ntls_key_file = "${key}"`
  await finds(doctor(lines), 'certificates', /cannot be read/)
  make('3')
  await finds(doctor(lines), 'certificates', /ends on/)
  make('90', join(folder, 'other.pem'))
  await finds(doctor(lines), 'certificates', /is not the key of the certificate/)
})

test('faults of the connection and of the clock', async () => {
  await finds(
    doctor('[database]\nurl = "postgres://nobody@127.0.0.1:1/x"'),
    'database',
    /cannot connect to the database/,
  )
  const { config } = loadConfig({ overrides: { 'database.url': url } })
  const items = await examineDatabase(client, config, () => Date.now() - 60_000)
  assert.match(
    items.find(({ check, state }) => check === 'clock' && state === 'finding')?.message ?? '',
    /differ by \d+\.\d s/,
  )
  await finds(
    doctor(`[database]\nurl = "${url}"\nreplica_urls = ["postgres://nobody@127.0.0.1:1/x"]`),
    'replicas',
    /cannot be reached/,
  )
  await finds(doctor(`[database]\nurl = "${url}"\nreplica_urls = ["${url}"]`), 'replicas', /is no standby/)
  await finds(doctor(`[database]\nurl = "${url}"\nmax_conns = 900`), 'connections', /PostgreSQL takes 100 connections/)
})

test('faults in the database', async () => {
  const drop = 'drop table if exists t cascade'
  await planted(...setting('fsync', 'off'), 'durability', /fsync is off/)
  await planted(...setting('synchronous_commit', 'off'), 'durability', /synchronous_commit is off/)
  await planted(
    'alter role svc_anon bypassrls',
    'alter role svc_anon nobypassrls',
    'roles',
    /svc_anon bypasses row level security/,
  )
  await planted(
    'create table t (id int primary key);\nalter table t enable row level security;\ncreate policy p on t using (true);\nalter table t owner to svc_authenticated',
    drop,
    'roles',
    /svc_authenticated owns tables/,
  )
  await planted('create table t (id int primary key)', drop, 'open tables', /anybody may write to public\.t/)
  await planted(
    'create table t (id int primary key);\nalter table t enable row level security',
    drop,
    'tables',
    /no policy/,
  )
  await planted(
    'create table t (id int);\nalter table t enable row level security;\ncreate policy p on t using (true)',
    drop,
    'tables',
    /no primary key/,
  )
  await planted(
    `create table t (id int primary key, v int);\nalter table t enable row level security;\ncreate policy p on t using (true);\ncreate index t_v on t (v);\nupdate pg_index set indisvalid = false where indexrelid = 't_v'::regclass`,
    drop,
    'indexes',
    /the index t_v is invalid/,
  )
  await planted(`create extension pg_trgm version '1.5'`, 'drop extension pg_trgm', 'extensions', /pg_trgm is 1\.5/)
  await planted(
    `select pg_create_physical_replication_slot('forgotten', true)`,
    `select pg_drop_replication_slot('forgotten')`,
    'replication',
    /slot forgotten is used by nobody/,
  )
  await planted(
    `insert into svc.migrations (name, checksum) values ('9999_later.sql', '')`,
    `delete from svc.migrations where name = '9999_later.sql'`,
    'migrations',
    /newer version of the server \(9999_later\.sql\)/,
  )
  await planted(...setting('synchronous_standby_names', 'nobody'), 'replication', /writes wait for ever/)
})

test('without CREATEROLE warnings and doctor say what to run by hand, and after the next start callers have their rights', async () => {
  const cluster = await startPrivateCluster()
  const superuser = await openConnection({ url: cluster.url })
  atEnd(() => superuser.end())
  await superuser.query('create role app login')
  await superuser.query('create database limited owner app')
  const limited = cluster.url.replace(/^(postgres(?:ql)?:\/\/)[^@]*@([^/]*)\/[^?]*/, '$1app@$2/limited')
  const owner = await openConnection({ url: limited })
  await owner.query(`create table books (id int primary key); alter table books enable row level security;
    create policy for_the_app on books to app using (id > 1)`)
  await owner.end()
  const { rows } = await superuser.query(`select current_setting('server_version_num')::int >= 160000 as "isNew"`)
  const grant = `grant svc_anon, svc_authenticated to app${rows[0]?.isNew === 't' ? ' with inherit false, set true' : ''}`
  const byHand = async (): Promise<string[]> => {
    const server = await startServer({ config: { 'database.url': limited } })
    const { warnings } = (await server.call('GET /api/admin/status', { as: 'admin' })).body
    assert.equal((await server.call('GET /api/collections/books', { as: 'admin' })).status, 200)
    await server.stop()
    const { findings } = await doctor(`[database]\nurl = "${limited}"`)
    const fixes = findings.flatMap(({ fix }) => /^as a superuser: (.*); then restart the server$/.exec(fix)?.[1] ?? [])
    const said = warnings.flatMap(
      (line: string) =>
        /^callers are refused until a superuser runs (.*); then restart the server$/.exec(line)?.[1] ?? [],
    )
    assert.deepEqual(said, fixes)
    return fixes
  }
  assert.deepEqual(await byHand(), [`create role svc_anon nologin; create role svc_authenticated nologin; ${grant}`])
  await superuser.query('create role svc_anon nologin; create role svc_authenticated nologin')
  assert.deepEqual(await byHand(), [grant])
  await superuser.query(grant)
  assert.deepEqual(await byHand(), [])
  const server = await startServer({ config: { 'database.url': limited } })
  const sql = (query: string) => server.call('POST /api/admin/sql', { as: 'admin', json: { query } })
  assert.equal((await sql('create table notes (id int primary key)')).status, 200)
  assert.equal((await server.call('POST /api/collections/notes', { json: { id: 1 } })).status, 201)
  assert.equal((await sql('revoke all on notes, books from svc_anon, svc_authenticated')).status, 200)
  await server.stop()
  const { findings } = await doctor(`[database]\nurl = "${limited}"`)
  assert.deepEqual(
    findings.flatMap(({ check, message }) => (check === 'roles' ? message : [])),
    ['callers have no right to any table of schema public'],
  )
})
