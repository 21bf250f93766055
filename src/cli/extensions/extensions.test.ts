import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { withoutExtensions } from '../../../test/kit/cluster.ts'
import { startServer } from '../../../test/kit/kit.ts'
import { loadConfig } from '../../config/config.ts'
import { openConnection } from '../../db/protocol/driver.ts'
import { accountFor } from '../../db/setup/embedded/account.ts'
import { startEmbedded } from '../../db/setup/embedded/embedded.ts'
import { extensionsDir } from '../../db/setup/embedded/extensions.ts'
import type { Context } from '../command/command.ts'
import { addExtension, listExtensions } from './extensions.ts'

const folder = mkdtempSync(join(tmpdir(), 'svc-extensions-'))
const dataDir = join(folder, 'data')
mkdirSync(dataDir, { mode: 0o700 })
const kept = extensionsDir(dataDir, accountFor(join(dataDir, 'postgres')), 18)
after(() => {
  for (const dir of [folder, dirname(kept)]) rmSync(dir, { recursive: true, force: true })
})

async function svc(
  command: (context: Context) => Promise<number>,
  args: string[] = [],
  from?: string,
  flags: Record<string, string> = {},
  { json = true, exit = 0 } = {},
): Promise<string> {
  let out = ''
  const code = await command({
    ...{ args, usage: '', argv: [], json, url: undefined, adminToken: undefined },
    flag: (name) => (name === 'from' ? from : undefined),
    onServing: () => {},
    config: () => loadConfig({ env: {}, flags: { 'data-dir': dataDir, ...flags }, cwd: folder }),
    print: (line) => {
      out += json ? line : `${line}\n`
    },
  })
  assert.equal(code, exit)
  return out
}

const add = (name: string, from: string) => svc(addExtension, [name], from)

function folderOf(files: Record<string, string | Buffer>): string {
  const dir = mkdtempSync(join(folder, 'from-'))
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true })
    writeFileSync(join(dir, path), content)
  }
  return dir
}

const GREETING = {
  'a/deep/greeting.control': `default_version = '1.2'\ncomment = 'says hello'\n`,
  'other/greeting--1.2.sql': `create function hello() returns text language sql as $$ select 'hello' $$;`,
  'readme.txt': 'not of it',
}
const WITH_LIBRARY = {
  'vector.control': `default_version = '0.8.0'\nmodule_pathname = '$libdir/vector'\nrelocatable = true\n`,
  'vector--0.8.0.sql': `create function nothing() returns int language c as 'MODULE_PATHNAME', 'nothing';`,
}

/** An entry of a tar archive. */
function entry(name: string, { type = '0', link = '', content = '' } = {}): Buffer {
  const head = Buffer.alloc(512)
  head.write(name, 0)
  head.write('0000644\0', 100)
  head.write('0000000\0', 108)
  head.write('0000000\0', 116)
  head.write(`${content.length.toString(8).padStart(11, '0')}\0`, 124)
  head.write('00000000000\0', 136)
  head.write('        ', 148)
  head.write(type, 156)
  head.write(link, 157)
  head.write('ustar\x0000', 257)
  const sum = head.reduce((total, byte) => total + byte, 0)
  head.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  const body = Buffer.alloc(Math.ceil(content.length / 512) * 512)
  body.write(content)
  return Buffer.concat([head, body])
}

/** A package of Debian: an `ar` archive of three files. */
function packageOf(...entries: Buffer[]): string {
  const part = (name: string, bytes: Buffer): Buffer => {
    const head = `${name.padEnd(16)}${'0'.padEnd(12)}${'0'.padEnd(6)}${'0'.padEnd(6)}${'100644'.padEnd(8)}${String(bytes.length).padEnd(10)}\`\n`
    return Buffer.concat([Buffer.from(head), bytes, Buffer.alloc(bytes.length % 2, '\n')])
  }
  const end = Buffer.alloc(1024)
  const path = join(mkdtempSync(join(folder, 'package-')), 'x.deb')
  const control = gzipSync(
    Buffer.concat([entry('./control', { content: 'Package: x\nVersion: 1\nArchitecture: all\n' }), end]),
  )
  writeFileSync(
    path,
    Buffer.concat([
      Buffer.from('!<arch>\n'),
      part('debian-binary', Buffer.from('2.0\n')),
      part('control.tar.gz', control),
      part('data.tar.gz', gzipSync(Buffer.concat([...entries, end]))),
    ]),
  )
  return path
}
const greetingIn = (dir: string): Buffer[] => [
  entry(`${dir}/greeting.control`, { content: GREETING['a/deep/greeting.control'] }),
  entry(`${dir}/greeting--1.2.sql`, { content: GREETING['other/greeting--1.2.sql'] }),
]

test('what is hostile, damaged or of another make is refused in a sentence, and nothing changes', async () => {
  const refused = async (name: string, from: string, words: RegExp): Promise<void> => {
    await assert.rejects(add(name, from), (error: Error) => {
      assert.match(error.message, words)
      assert.doesNotMatch(error.message, /\n/)
      return true
    })
    assert.equal(existsSync(kept), false, 'nothing was kept')
  }
  await refused('greeting', join(folder, 'nowhere'), /there is no /)
  await refused('greeting', folderOf({ 'x.control': '' }), /has no greeting\.control/)
  await refused('greeting', folderOf({ 'greeting.control': `default_version = '1'` }), /no script/)
  await refused(
    'greeting',
    folderOf({ ...GREETING, 'b/greeting--1.2.sql': 'other' }),
    /two files greeting--1\.2\.sql that differ/,
  )
  const linked = folderOf(GREETING)
  symlinkSync('/etc/passwd', join(linked, 'greeting--1.1--1.2.sql'))
  await refused('greeting', linked, /a link where a file is expected/)

  const good = greetingIn('./usr/share/postgresql/18/extension')
  await refused(
    'greeting',
    packageOf(...good, entry('../../etc/cron.d/x', { content: 'x' })),
    /a path that leads out of it/,
  )
  await refused('greeting', packageOf(...good, entry('/etc/cron.d/x', { content: 'x' })), /a path that leads out of it/)
  await refused(
    'greeting',
    packageOf(...good, entry('./usr/greeting.so', { type: '2', link: '/etc/shadow' })),
    /a link or a device/,
  )
  await refused('greeting', packageOf(...good, entry('./usr/x', { type: '1', link: 'y' })), /a link or a device/)
  const whole = readFileSync(packageOf(...good))
  const cut = join(folder, 'cut.deb')
  writeFileSync(cut, whole.subarray(0, whole.length - 200))
  await refused('greeting', cut, /is refused/)

  await refused('vector', folderOf(WITH_LIBRARY), /no library vector/)
  await refused('vector', folderOf({ ...WITH_LIBRARY, 'vector.so': '\x7fELF' }), /damaged or for another processor/)
  await assert.rejects(svc(addExtension, ['../x'], folder), /not a name of an extension/)
  await assert.rejects(
    svc(addExtension, ['vector'], folder, { 'database-url': 'postgres://x@db/x' }),
    /for the embedded PostgreSQL: install vector on the machine of the database/,
  )
})

test('a library of another PostgreSQL is refused', { skip: withoutExtensions }, async () => {
  const library = join(process.env['SVC_TEST_PG_BIN_EXT'] ?? '', '../lib/vector.so')
  await assert.rejects(
    add('vector', folderOf({ ...WITH_LIBRARY, 'vector.so': readFileSync(library) })),
    /^Error: vector 0\.8\.0 cannot be loaded: it was made for another PostgreSQL than 18/,
  )
  assert.equal(existsSync(kept), false)
})

test('an extension that is added is there after the next start, from a folder and from a package', async () => {
  assert.deepEqual(JSON.parse(await add('greeting', folderOf(GREETING))), {
    ...{ name: 'greeting', version: '1.2', path: kept, restart: false },
  })
  await add('greeting', packageOf(...greetingIn('./usr/share/postgresql/18/extension')))
  const cluster = await startEmbedded({ dataDir, log: () => {} })
  try {
    const client = await openConnection({ url: cluster.url })
    await client.query('create extension greeting')
    assert.equal((await client.query('select hello()')).rows[0].hello, 'hello')
    await assert.rejects(
      client.query(`copy (select 'x') to '${kept}/extension/greeting--1.2.sql'`),
      /Permission denied/,
    )
    await client.end()
  } finally {
    await cluster.stop()
  }
  const { items } = JSON.parse(await svc(listExtensions)) as { items: { name: string; state: string; for: string }[] }
  const states = Object.fromEntries(items.map(({ name, state }) => [name, state]))
  assert.equal(states['greeting'], 'installed')
  assert.equal(states['pg_trgm'], 'available')
  assert.equal(states['vector'], 'missing')
  assert.equal(items.find(({ name }) => name === 'vector')?.for, 'vector search')
})

test('what cannot be fetched is said as lines to do by hand', async () => {
  const lines = await svc(addExtension, ['greeting'], undefined, {}, { json: false, exit: 1 })
  assert.equal(
    lines,
    `cannot fetch greeting by itself; by hand:
build greeting for PostgreSQL 18, or unpack a package of it, and name its folder:
svc extensions add greeting --from DIR
`,
  )
  await assert.rejects(svc(addExtension, ['greeting']), /cannot fetch greeting by itself: build greeting .*--from DIR/)
})

test('where create extension fails, the answer names the command', async () => {
  const api = await startServer()
  const { status, body } = await api.call('POST /api/admin/sql', {
    as: 'admin',
    json: { query: 'create extension vector' },
  })
  assert.equal(status, 400)
  assert.match(body.message, /^extension "vector" is not available; to add it: svc extensions add vector$/)
})
