import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { startServer } from '../../../../test/kit/kit.ts'
import { svc } from '../../../../test/kit/programs.ts'
import { startEmbedded } from '../../../db/setup/embedded/embedded.ts'

/** Debian 12 has neither headers of PostgreSQL 18 nor a pgvector for it, so both come from other releases. */
const isDebian = process.platform === 'linux' && process.getuid?.() === 0 && readdirSync('/etc/apt').length > 0
const work = mkdtempSync(join(tmpdir(), 'svc-vector-'))
chmodSync(work, 0o777)
const dataDir = join(work, 'data')
after(() => rmSync(work, { recursive: true, force: true }))

const quietly = (program: string, args: string[], cwd = work): string =>
  execFileSync(program, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })

/** apt options that use another release alone. */
function release(name: string, kind: 'deb' | 'deb-src'): string[] {
  const state = join(work, name)
  for (const dir of ['lists/partial', 'cache/archives/partial']) mkdirSync(join(state, dir), { recursive: true })
  const targets = ['indextargets', '--format', '$(SITE)', 'Created-By: Packages', 'Component: main']
  const [site] = quietly('apt-get', targets).split('\n')
  writeFileSync(join(state, 'sources.list'), `${kind} [trusted=yes] ${site} ${name} main\n`)
  const options = [
    ...['-o', `Dir::Etc::sourcelist=${join(state, 'sources.list')}`, '-o', 'Dir::Etc::sourceparts=/nonexistent'],
    ...['-o', `Dir::State::lists=${join(state, 'lists')}`, '-o', `Dir::Cache=${join(state, 'cache')}`],
    ...['-o', 'APT::Sandbox::User=root', '-q'],
  ]
  quietly('apt-get', [...options, 'update'])
  return options
}

const only = (pattern: RegExp): string => readdirSync(work).find((name) => pattern.test(name)) ?? ''

before(() => {
  if (!isDebian) return
  const sid = release('sid', 'deb')
  quietly('apt-get', [...sid, 'download', 'postgresql-server-dev-18', 'postgresql-18-pgvector'])
  quietly('dpkg', ['-x', only(/^postgresql-server-dev-18_/), 'headers'])
  quietly('apt-get', [...release('trixie', 'deb-src'), 'source', '--download-only', 'pgvector'])
  quietly('tar', ['-xf', only(/^pgvector_.*\.orig\.tar/), '--one-top-level=pgvector', '--strip=1'])
  const source = join(work, 'pgvector/src')
  const files = readdirSync(source).filter((name) => name.endsWith('.c'))
  for (const name of files) {
    // Calls that PostgreSQL 18 changed.
    const text = readFileSync(join(source, name), 'utf8')
      .replaceAll('vacuum_delay_point()', 'vacuum_delay_point(false)')
      .replaceAll(/(\w+(?:->\w+)*)->attrs\[0\]\.atttypid/g, 'TupleDescAttr($1, 0)->atttypid')
      .replaceAll(/&\(?(\w+(?:->\w+)*)->attrs\[0\]\)?/g, 'TupleDescAttr($1, 0)')
      .replaceAll(/(\w+(?:->\w+)*)->attrs\[0\]\./g, 'TupleDescAttr($1, 0)->')
    writeFileSync(join(source, name), text)
  }
  quietly(
    'gcc',
    ['-O2', '-fPIC', `-I${join(work, 'headers/usr/include/postgresql/18/server')}`, '-c', ...files],
    source,
  )
  quietly('gcc', ['-shared', '-o', '../vector.so', ...files.map((name) => name.replace(/c$/, 'o'))], source)
  writeFileSync(join(work, 'pgvector/vector--0.8.0.sql'), readFileSync(join(work, 'pgvector/sql/vector.sql')))
  rmSync(join(work, 'pgvector/sql'), { recursive: true })
})

const add = (from: string): string =>
  execFileSync(process.execPath, [...svc, 'extensions', 'add', 'vector', '--data-dir', dataDir, '--from', from], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  })

test('pgvector on the embedded PostgreSQL: a column, an HNSW index, and the nearest rows', {
  skip: !isDebian,
}, async () => {
  assert.throws(() => add(join(work, only(/^postgresql-18-pgvector_/))), /newer C library|cannot be loaded/)
  assert.match(
    add(join(work, 'pgvector')),
    /^vector 0\.8\.0 is in .*; the next start loads it, then: create extension vector/,
  )
  const cluster = await startEmbedded({ dataDir, log: () => {} })
  const api = await startServer({ config: { 'database.url': cluster.url } })
  const run = async (query: string) => {
    const { status, body } = await api.call('POST /api/admin/sql', { as: 'admin', json: { query } })
    assert.equal(status, 200, JSON.stringify(body))
  }
  await run('create extension vector')
  await run('create table places (id int primary key, v vector(3))')
  await run('insert into places select i, array[i, i % 7, 1]::vector from generate_series(1, 2000) i')
  await run('create index on places using hnsw (v vector_l2_ops)')
  const { status, body } = await api.call(
    'GET /api/collections/places?nearest=[1000,6,1]&vector_column=v&distance=l2&limit=1',
  )
  assert.equal(status, 200, JSON.stringify(body))
  assert.equal(body.items[0].id, 1000)
  await api.stop()
  await cluster.stop()
})
