import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { freePort } from '../../test/kit/free-port.ts'
import { client } from '../../test/kit/kit.ts'
import { svc as program } from '../../test/kit/programs.ts'
import { loadConfig } from '../config/config.ts'
import { lockDataDir } from '../db/setup/embedded/lock.ts'
import type { Context } from './command/command.ts'
import { serverUrl } from './command/server-api.ts'

const home = mkdtempSync(join(tmpdir(), 'svc-cli-'))
const dataDir = join(home, 'data')
after(async () => {
  await svc(['stop'])
  rmSync(home, { recursive: true, force: true })
})

type Ran = { code: number | null; out: string; err: string }

/** Runs `svc …` in the test's own folder, as a person would. */
function svc(
  args: string[],
  { env = {}, stdin = '', cwd = home }: { env?: NodeJS.ProcessEnv; stdin?: string; cwd?: string } = {},
): Promise<Ran> {
  const child = spawn(process.execPath, [...program, ...args], {
    cwd,
    env: { PATH: process.env['PATH'], TMPDIR: process.env['TMPDIR'], SVC_DATA_DIR: dataDir, ...env },
  })
  const ran = { code: null as number | null, out: '', err: '' }
  child.stdout.on('data', (chunk) => {
    ran.out += chunk
  })
  child.stderr.on('data', (chunk) => {
    ran.err += chunk
  })
  child.stdin.end(stdin)
  return new Promise((resolve) => child.once('close', (code) => resolve({ ...ran, code })))
}

const port = await freePort()
const url = `http://127.0.0.1:${port}`
const api = client(url, '')
let password = ''

test('a data directory that cannot be made is one sentence, in the foreground and detached', async () => {
  for (const args of [['start'], ['start', '--detach']]) {
    const { code, err } = await svc([...args, '--data-dir', '/proc/nope'])
    assert.equal(code, 1, args.join(' '))
    assert.match(err, /^the directory \/proc\/nope cannot be made: .+\n$/)
  }
})

test('a command stays with the server that it began with, and takes its token nowhere else', async () => {
  const { config } = loadConfig({ overrides: { data_dir: join(home, 'ends'), 'server.port': 65_000 } })
  const lock = await lockDataDir(config.data_dir)
  lock.announce('http://127.0.0.1:65001')
  const [command, next] = [{ url: undefined } as Context, { url: undefined } as Context]
  assert.equal(serverUrl(command, config), 'http://127.0.0.1:65001')
  lock.release()
  assert.equal(serverUrl(command, config), 'http://127.0.0.1:65001')
  assert.equal(serverUrl(next, config), 'http://localhost:65000')
})

test('wrong usage is one sentence and exit code 2', async () => {
  const wrong: [args: string[], sentence: string][] = [
    [['fly'], 'unknown command: fly (see svc --help)'],
    [['strat'], 'unknown command: strat; did you mean svc start? (see svc --help)'],
    [['start', '--detahc'], "Unknown option '--detahc'; did you mean --detach? (see svc --help)"],
    [['migrate', 'pu'], 'unknown command: migrate pu; did you mean svc migrate up? (see svc --help)'],
    [['completion', 'tcsh'], 'usage: svc completion bash|zsh|fish'],
    [['migrate', 'sideways'], 'unknown command: migrate sideways (see svc --help)'],
    [['start', '--bogus'], "Unknown option '--bogus' (see svc --help)"],
    [['stop', '--detach'], '--detach does not belong to svc stop (see svc --help)'],
    [['migrate', 'up', '--url', 'http://x.test'], '--url does not belong to svc migrate up (see svc --help)'],
    [['sql'], 'usage: svc sql "<query>"'],
    [['stop', './drill'], 'usage: svc stop'],
    [['start', 'now'], 'usage: svc start [--detach]'],
    [['status', './drill'], 'usage: svc status'],
    [['doctor', 'x'], 'usage: svc doctor'],
    [['migrate', 'up', 'x'], 'usage: svc migrate up'],
    [['admin', 'list', 'x'], 'usage: svc admin list'],
    [['restore', 'take-over', 'x'], 'usage: svc restore take-over --data-dir <dir>'],
    [['users', 'lst'], 'unknown command: users lst; did you mean svc users list? (see svc --help)'],
    [['users', 'show'], 'usage: svc users show <id or address>'],
    [['backup', 'lst'], 'unknown command: backup lst; did you mean svc backup list? (see svc --help)'],
    [
      ['apikeys', 'create', '--name', 'x'],
      'usage: svc apikeys create --user <id or address> --name <name> [--scope] [--tables] [--app]',
    ],
    [['sql', 'select 1', '--url', 'localhost:9106'], '--url needs http:// or https://: localhost:9106'],
    [['adopt', 'supabase', 'postgres://x', '--files'], "Option '--files <value>' argument missing (see svc --help)"],
    [['backup', '--files=x'], "Option '--files' does not take an argument (see svc --help)"],
    [['migrate', 'create', 'a b'], 'a migration name consists of letters, digits, _ and -'],
  ]
  const ran = await Promise.all(wrong.map(([args]) => svc(args)))
  assert.deepEqual(
    ran,
    wrong.map(([, sentence]) => ({ code: 2, out: '', err: `${sentence}\n` })),
  )
})

test('a configuration that cannot be is one sentence and exit code 1', async () => {
  const folder = join(home, 'bad')
  mkdirSync(folder)
  writeFileSync(join(folder, 'svc.toml'), '[server]\nprot = 1')
  assert.deepEqual(await svc(['start'], { cwd: folder }), {
    code: 1,
    out: '',
    err: 'unknown configuration key: server.prot; did you mean server.port?\n',
  })
  assert.deepEqual(await svc(['start', '--port', 'x']), {
    code: 1,
    out: '',
    err: 'invalid value for server.port: expected an integer\n',
  })
  const refused = await svc(['start', '--database-url', 'postgres://nobody@127.0.0.1:1/x'])
  assert.equal(refused.code, 1)
  assert.match(refused.err, /^cannot connect to the database: [^\n]+\n$/)
})

test('version and help need no server', async () => {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  assert.deepEqual(await svc(['version']), { code: 0, out: `${version}\n`, err: '' })
  assert.deepEqual(await svc(['version', '--json']), { code: 0, out: `{"version":"${version}"}\n`, err: '' })
  const all = (await svc(['--help'])).out
  assert.match(all, /svc migrate create <name>/)
  assert.deepEqual(await svc([]), { code: 0, out: all, err: '' })
  assert.deepEqual(await svc(['help']), { code: 0, out: all, err: '' })
  const start = await svc(['start', '--help'])
  assert.deepEqual(start, await svc(['help', 'start']))
  assert.match(
    start.out,
    /^Usage: svc start \[--detach\]\n[\s\S]+--detach {2,}run in the background[\s\S]+Examples:\n {2}svc .+\n {2}svc .+\n$/,
  )
  assert.match((await svc(['help', 'migrate', 'create'])).out, /^Usage: svc migrate create <name>\n/)
  const group = (await svc(['help', 'migrate'])).out
  assert.ok(/svc migrate up/.test(group) && !/svc start/.test(group))
  // A group alone is no command: its help is the answer.
  for (const name of ['admin', 'migrate', 'secrets', 'storage', 'rls', 'sites', 'users', 'apikeys', 'adopt']) {
    const alone = await svc([name])
    assert.deepEqual([alone.code, alone.out, alone.err], [2, '', (await svc(['help', name])).out], name)
  }
  assert.match((await svc(['help', 'users', 'create'])).out, /SVC_USER_PASSWORD/)
  for (const args of [
    [],
    ['help', 'adopt'],
    ['help', 'adopt', 'supabase'],
    ['help', 'users', 'import'],
    ['help', 'restore'],
  ]) {
    const { out } = await svc(args)
    assert.deepEqual(
      out.split('\n').filter((line) => line.length > 80 && !/^ {2}svc /.test(line)),
      [],
      args.join(' '),
    )
  }
  assert.deepEqual(
    all.split('\n').filter((line) => line.length > 80),
    [],
  )
})

test('a reader that goes away ends the output, and a full disk is one sentence', async () => {
  const run = (line: string) =>
    spawnSync('bash', ['--norc', '-c', `set -o pipefail; ${line}`], {
      cwd: home,
      env: { PATH: process.env['PATH'] },
      encoding: 'utf8',
    })
  const help = [process.execPath, ...program].map((word) => `'${word}'`).join(' ')
  const cut = run(`${help} completion fish | true`)
  assert.deepEqual([cut.status, cut.stderr], [0, ''])
  if (!existsSync('/dev/full')) return
  const full = run(`${help} completion fish > /dev/full`)
  assert.deepEqual([full.status, full.stderr], [1, 'the output cannot be written: no space left on device\n'])
})

test('without a server status and stop fail', async () => {
  const { code, out } = await svc(['status', '--json'])
  assert.equal(code, 1)
  assert.deepEqual(JSON.parse(out), { pid: null, url: 'http://localhost:8090', health: 'down' })
  assert.deepEqual(await svc(['stop']), { code: 1, out: '', err: `no server is running on ${dataDir}\n` })
  const sql = await svc(['sql', 'select 1'])
  assert.equal(sql.code, 1)
  assert.match(sql.err, /^no admin token: [^\n]+\n$/)
})

test('a detached start says where it is and what the password is, once', async () => {
  const { code, out, err } = await svc(['start', '--detach', '--port', String(port)])
  assert.deepEqual([code, err], [0, ''])
  assert.match(out, new RegExp(`URL +http://localhost:${port}\n`))
  assert.match(out, /Database +PostgreSQL \d+\.\d+ embedded in /)
  assert.match(out, /pg_trgm/)
  assert.match(out, new RegExp(`Dashboard +http://localhost:${port}/admin/ \\(svc open signs you in\\)\n`))
  password = /Admin password \(shown only this once\): ([0-9a-f]{32})\n/.exec(out)?.[1] ?? ''
  assert.notEqual(password, '')
  assert.equal((await api.call('POST /api/admin/auth', { json: { password } })).status, 200)
  assert.equal(statSync(dataDir).mode & 0o777, 0o700)
  for (const name of ['admin-token', 'svc.pid', 'svc.log']) {
    assert.equal(statSync(join(dataDir, name)).mode & 0o777, 0o600, name)
  }
  assert.ok(!readFileSync(join(dataDir, 'svc.log'), 'utf8').includes(password))
})

test('a second start on the same data says who holds it', async () => {
  const { code, err } = await svc(['start', '--port', '0'])
  assert.equal(code, 1)
  assert.match(err, /^the data directory \S+ is in use by another server \(pid \d+, http:\S+\): [^\n]+\n$/)
})

test('a port that is taken is one sentence', async () => {
  const env = { SVC_DATA_DIR: join(home, 'other') }
  const { code, err } = await svc(['start', '--port', String(port)], { env })
  assert.deepEqual([code, err], [1, `cannot listen on 127.0.0.1 port ${port}: another program listens there\n`])
  assert.equal(existsSync(join(home, 'other/postgres/postmaster.pid')), false)
})

test('status shows pid, URL and health', async () => {
  const { code, out } = await svc(['status', '--json'])
  assert.equal(code, 0)
  const { pid, ...rest } = JSON.parse(out)
  assert.equal(typeof pid, 'number')
  assert.deepEqual(rest, { url, health: 'ok' })
  assert.equal((await svc(['status'])).out, `pid     ${pid}\nurl     ${url}\nhealth  ok\n`)
})

test('status of another data directory is about its server alone', async () => {
  const env = { SVC_DATA_DIR: join(home, 'drill'), SVC_SERVER_PORT: String(port) }
  const { code, out } = await svc(['status', '--json'], { env })
  assert.deepEqual([code, JSON.parse(out)], [1, { pid: null, url: `http://localhost:${port}`, health: 'down' }])
  assert.equal((await svc(['status', '--url', url], { env })).code, 0)
})

test('sql runs through the server with the token of its data directory', async () => {
  const { out } = await svc([
    'sql',
    `select 9223372036854775807 as big, 'a' as t union all select null, 'b' order by t`,
  ])
  assert.equal(
    out,
    'big                  t\n-------------------  -\n9223372036854775807  a\nNULL                 b\n(2 rows)\n',
  )
  const json = await svc(['sql', '-', '--json'], { stdin: 'select 1 as one' })
  assert.deepEqual(JSON.parse(json.out).rows, [[1]])
  assert.deepEqual(await svc(['sql', 'select 1/0']), { code: 1, out: '', err: 'division by zero\n' })
  const stranger = await svc(['sql', 'select 1'], { env: { SVC_ADMIN_TOKEN: '0'.repeat(64) } })
  assert.deepEqual([stranger.code, stranger.err], [1, 'admin authentication required\n'])
  const nobody = await svc(['sql', 'select 1', '--url', 'http://127.0.0.1:1'])
  assert.deepEqual([nobody.code, nobody.err], [1, 'no server answers at http://127.0.0.1:1\n'])
})

test('migrations run once, in order, beside the running server', async () => {
  const folder = join(home, 'migrations')
  assert.equal((await svc(['migrate', 'status'])).out, `no migrations in ${folder}\n`)
  const made = await svc(['migrate', 'create', 'add_books'])
  assert.match(made.out, /\/migrations\/\d{14}_add_books\.sql\n$/)
  const first = made.out.trim()
  writeFileSync(first, 'create table books (id int primary key); insert into books values (1);')
  assert.match((await svc(['migrate', 'status'])).out, /add_books\.sql +pending\n$/)
  const [one, two] = await Promise.all([svc(['migrate', 'up']), svc(['migrate', 'up'])])
  assert.deepEqual([one.code, two.code], [0, 0])
  const [name = ''] = readdirSync(folder)
  assert.deepEqual([one.out, two.out].sort(), [`applied ${name}\n`, 'nothing to apply\n'])
  const { status } = await api.call('GET /api/collections/books', {
    as: readFileSync(join(dataDir, 'admin-token'), 'utf8').trim(),
  })
  assert.equal(status, 200)

  writeFileSync(join(folder, '99990101000000_broken.sql'), 'create table half (); select 1/0;')
  const broken = await svc(['migrate', 'up'])
  assert.deepEqual([broken.code, broken.err], [1, 'migration 99990101000000_broken.sql failed: division by zero\n'])
  assert.equal((await svc(['sql', `select to_regclass('half')`, '--json'])).out.includes('[[null]]'), true)
  writeFileSync(join(folder, '99990101000000_broken.sql'), 'create table half (); commit;')
  assert.match((await svc(['migrate', 'up'])).err, /failed: it must not contain COMMIT or ROLLBACK\n$/)
  // A sequence keeps its value when the transaction is undone.
  const deadlocked = `create sequence if not exists tries`
  assert.equal((await svc(['sql', deadlocked])).code, 0)
  writeFileSync(
    join(folder, '99990101000000_broken.sql'),
    `do $$ begin if nextval('tries') < 3 then raise 'deadlock detected' using errcode = '40P01'; end if; end $$`,
  )
  assert.deepEqual(await svc(['migrate', 'up']), { code: 0, out: 'applied 99990101000000_broken.sql\n', err: '' })
  assert.equal((await svc(['sql', `delete from svc.user_migrations where name ~ 'broken'`])).code, 0)
  writeFileSync(
    join(folder, '99990101000000_broken.sql'),
    `create table once (); commit; select nextval('tries'); do $$ begin raise 'deadlock detected' using errcode = '40P01'; end $$`,
  )
  assert.match((await svc(['migrate', 'up'])).err, /failed: it must not contain COMMIT or ROLLBACK\n$/)
  assert.match((await svc(['sql', 'select last_value from tries', '--json'])).out, /\[\["?4"?\]\]/)
  rmSync(join(folder, '99990101000000_broken.sql'))

  writeFileSync(first, 'create table other ();')
  const changed = await svc(['migrate', 'up'])
  assert.deepEqual([changed.code, changed.err], [1, `migration ${name} was changed after it was applied\n`])
  assert.match((await svc(['migrate', 'status'])).out, /changed/)
  writeFileSync(join(folder, 'note.sql'), '')
  assert.match((await svc(['migrate', 'up'])).err, /^not a migration name: note\.sql /)
})

test('reset-password ends the old password and every token, and the tool keeps working', async () => {
  const token = (await api.call('POST /api/admin/auth', { json: { password } })).body.token
  const refused = await svc(['admin', 'reset-password'], { env: { SVC_ADMIN_PASSWORD: 'configured' } })
  assert.deepEqual([refused.code, refused.err], [1, 'admin.password is configured: change it there\n'])
  const { code, out } = await svc(['admin', 'reset-password', '--json'])
  assert.equal(code, 0)
  const fresh = JSON.parse(out).password
  assert.equal((await api.call('POST /api/admin/auth', { json: { password } })).status, 401)
  assert.equal((await api.call('POST /api/admin/auth', { json: { password: fresh } })).status, 200)
  assert.equal((await api.call('GET /api/admin/stats', { as: token })).status, 401)
  assert.equal((await svc(['sql', 'select 1'])).code, 0)
})

test('users are made, disabled, exported and deleted by id or address', async () => {
  const made = await svc(['users', 'create', 'Ana@x.test'], { env: { SVC_USER_PASSWORD: 'long enough password' } })
  assert.equal(made.code, 0, made.err)
  const id = made.out.trim()
  assert.equal((await svc(['users', 'list'])).out, `${id}  ana@x.test\n`)
  const disabled = await svc(['users', 'disable', 'ana@x.test', '--json'])
  assert.deepEqual(JSON.parse(disabled.out), { id, done: 'disabled' })
  assert.equal((await svc(['users', 'disable', 'ana@x.test'])).out, 'disabled\n')
  assert.match((await svc(['users', 'list'])).out, /ana@x\.test {2}disabled/)
  assert.equal((await svc(['users', 'enable', made.out.trim()])).out, 'enabled\n')
  const factor = '11111111-1111-4111-8111-111111111111'
  const insert = `insert into svc.mfa_factors (id, user_id, method, phone, confirmed_at)
    values ('${factor}', '${made.out.trim()}', 'sms', '+4915112345678', now())`
  assert.equal((await svc(['sql', insert])).code, 0)
  assert.match((await svc(['users', 'factors', 'ana@x.test', '--json'])).out, new RegExp(factor))
  assert.equal((await svc(['users', 'remove-factor', 'ana@x.test', factor])).out, 'factor removed\n')
  assert.equal((await svc(['users', 'remove-factor', 'ana@x.test', factor])).code, 1)
  assert.equal((await svc(['users', 'remove-factor', 'ana@x.test'])).code, 2)
  const link = `insert into svc.identities (provider, subject, user_id) values ('github', '42', '${made.out.trim()}') returning id`
  assert.equal((await svc(['sql', link])).code, 0)
  const [{ id: linked }] = JSON.parse((await svc(['users', 'providers', 'ana@x.test'])).out)
  assert.equal((await svc(['users', 'remove-provider', 'ana@x.test', linked])).out, 'provider removed\n')
  assert.equal((await svc(['users', 'remove-provider', 'ana@x.test'])).code, 2)
  const file = join(home, 'ana.json')
  assert.equal((await svc(['users', 'export', 'ana@x.test', file])).code, 0)
  assert.equal(JSON.parse(readFileSync(file, 'utf8')).account.email, 'ana@x.test')
  assert.equal((await svc(['users', 'delete', 'ana@x.test'])).out, 'deleted\n')
  assert.equal((await svc(['users', 'show', 'ana@x.test'])).err, 'no user has the address ana@x.test\n')
  assert.equal((await svc(['users', 'promote', 'ana@x.test'])).code, 2)
})

test('users beyond a hundred are listed, and found by their address', async () => {
  // The newest come first, and the address of the oldest is a part of all others.
  const insert = `insert into svc.users (id, email, created_at)
    select gen_random_uuid(), repeat('x', n) || 'bo@x.test', now() + n * interval '1 second' from generate_series(0, 205) n`
  assert.deepEqual((await svc(['sql', insert])).err, '')
  const { out } = await svc(['users', 'list', '--json'])
  const { items, totalItems } = JSON.parse(out)
  assert.deepEqual([items.length, totalItems], [206, 206])
  assert.equal((await svc(['users', 'list'])).out.trim().split('\n').length, 206)
  assert.equal((await svc(['users', 'list', '--search', `${'x'.repeat(205)}bo`])).out.trim().split('\n').length, 1)
  assert.equal(JSON.parse((await svc(['users', 'show', 'bo@x.test'])).out).email, 'bo@x.test')
})

test('API keys are made for a user, listed and revoked', async () => {
  const made = await svc([
    'apikeys',
    'create',
    '--user',
    'bo@x.test',
    '--name',
    'nightly',
    '--scope',
    'readonly',
    '--tables',
    'books, films',
  ])
  assert.deepEqual([made.code, made.err], [0, ''])
  const [, key = '', id = ''] = /^(svc_[0-9a-f]{48})\n.*\(id ([0-9a-f-]{36})\)/.exec(made.out) ?? []
  assert.notEqual(key, '', made.out)
  assert.equal((await api.call('GET /api/collections/books', { as: key })).status, 200)
  const { items } = JSON.parse((await svc(['apikeys', 'list', '--json'])).out)
  assert.deepEqual([items[0].id, items[0].scope, items[0].allowedTables], [id, 'readonly', ['books', 'films']])
  assert.match((await svc(['apikeys', 'list'])).out, new RegExp(`${id} .*nightly`))
  assert.deepEqual(await svc(['apikeys', 'revoke', id]), { code: 0, out: 'revoked\n', err: '' })
  assert.equal((await api.call('GET /api/collections/books', { as: key })).status, 401)
  assert.equal((await svc(['apikeys', 'revoke', id])).err, 'api key not found\n')
  assert.equal((await svc(['apikeys', 'create', '--user', 'bo@x.test', '--name', 'x', '--scope', 'all'])).code, 1)
})

test('what is not there is said in one sentence', async () => {
  const cases: [args: string[], code: number, sentence: RegExp][] = [
    [['backup', 'list', '--to', './nowhere'], 1, /^there is nothing at \S+nowhere\n$/],
    [['backup', 'list', '--to', join(dataDir, 'svc.log')], 1, /^\S+svc.log is no folder\n$/],
    [['rls', 'diff', 'none.snapshot'], 1, /^there is no none\.snapshot: svc rls snapshot none\.snapshot writes it\n$/],
    [
      ['migrate', 'status', '--database-url', 'mysql://x'],
      1,
      /^invalid value for database\.url: expected a URL of PostgreSQL \(postgres:\/\/…\)\n$/,
    ],
    [
      ['start', '--database-url', 'mysql://x'],
      1,
      /^invalid value for database\.url: expected a URL of PostgreSQL \(postgres:\/\/…\)\n$/,
    ],
  ]
  for (const [args, code, sentence] of cases) {
    const ran = await svc(args)
    assert.deepEqual([ran.code, ran.out], [code, ''], args.join(' '))
    assert.match(ran.err, sentence)
  }
  mkdirSync(join(home, 'empty'))
  assert.deepEqual(await svc(['backup', 'list', '--to', 'empty']), {
    code: 0,
    out: `no backup in ${join(home, 'empty')}\n`,
    err: '',
  })
})

test('administrators are added, listed and removed; the last owner stays', async () => {
  const added = await svc(['admin', 'add', 'Olga@x.test', '--role', 'owner', '--name', 'Olga'])
  const [, password = ''] = /^added olga@x\.test as owner, password: ([0-9a-f]{32})\n$/.exec(added.out) ?? []
  assert.notEqual(password, '', added.err)
  const given = await svc(['admin', 'add', 'vera@x.test'], { env: { SVC_USER_PASSWORD: 'long enough password' } })
  assert.equal(given.out, 'added vera@x.test as viewer\n')
  assert.match((await svc(['admin', 'list'])).out, /owner {2}olga@x\.test {2}Olga\n.*viewer {2}vera@x\.test/)
  assert.equal((await svc(['admin', 'remove', 'vera@x.test'])).out, 'removed vera@x.test\n')
  assert.deepEqual(await svc(['admin', 'remove', 'olga@x.test']), {
    code: 1,
    out: '',
    err: 'the last owner cannot go\n',
  })
  assert.equal((await svc(['admin', 'remove', 'nemo@x.test'])).err, 'no administrator is called nemo@x.test\n')
  assert.equal((await svc(['admin', 'add'])).code, 2)
})

test('cleanups are listed, run one by one, and unknown ones are refused', async () => {
  const listed = await svc(['cleanup', '--json'])
  assert.deepEqual(JSON.parse(listed.out), {
    items: [
      'expired_auth_cleanup',
      'stale_session_cleanup',
      'anonymous_account_cleanup',
      'unverified_totp_cleanup',
      'expired_oauth_cleanup',
      'kept_answer_cleanup',
      'audit_log_retention',
      'change_log_trim',
      'webhook_delivery_prune',
      'storage_orphan_sweep',
    ],
  })
  const abandon = `insert into svc.users (is_anonymous, created_at) values
    (true, now() - interval '31 days'), (true, now() - interval '29 days') returning id`
  assert.equal((await svc(['sql', abandon])).code, 0)
  assert.deepEqual(await svc(['cleanup', 'anonymous_account_cleanup']), { code: 0, out: 'removed 1\n', err: '' })
  assert.deepEqual(await svc(['cleanup', 'anonymous_account_cleanup']), { code: 0, out: 'removed 0\n', err: '' })
  for (const name of ['storage_orphan_sweep', 'change_log_trim']) {
    const { code, out } = await svc(['cleanup', name, '--json'])
    assert.deepEqual([code, JSON.parse(out)], [0, { removed: 0 }], name)
  }
  const { code, err } = await svc(['cleanup', 'everything'])
  assert.equal(code, 2)
  assert.match(err, /^unknown cleanup: everything \(there are .*\)\n$/)
})

test('stop ends the server and its database, and leaves no token behind', async () => {
  const { code, out } = await svc(['stop'])
  assert.equal(code, 0)
  assert.match(out, /^stopped \(pid \d+\)\n$/)
  for (const name of ['svc.pid', 'admin-token', 'postgres/postmaster.pid']) {
    assert.equal(existsSync(join(dataDir, name)), false, name)
  }
})

test('a stopped embedded database is started for a migration and stopped again', async () => {
  rmSync(join(home, 'migrations'), { recursive: true })
  const { code, out } = await svc(['migrate', 'status', '--json'])
  assert.equal(code, 0)
  assert.equal(JSON.parse(out).items[0].state, 'missing')
  assert.equal(existsSync(join(dataDir, 'postgres/postmaster.pid')), false)
})

test('the next start keeps the password to itself', async () => {
  const { out } = await svc(['start', '--detach', '--json', '--port', '0'])
  const { url: there, adminPassword } = JSON.parse(out)
  assert.match(there, /^http:\/\/localhost:\d+$/)
  assert.equal(adminPassword, undefined)
  assert.equal((await svc(['status'])).code, 0)
})
