import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, test } from 'node:test'
import { challenge, enrollTotp, firstFactor, signInWithTotp } from '../../test/fakes/authenticator.ts'
import { startReceiver } from '../../test/fakes/receiver.ts'
import { eventually, startServer, type TestServer } from '../../test/kit/kit.ts'
import { svc as program } from '../../test/kit/programs.ts'
import { SecretBox } from '../core/secret-box.ts'

const [A, B, C] = ['a', 'b', 'c'].map((digit) => digit.repeat(64)) as [string, string, string]
const on = (server: TestServer | undefined, auth: Record<string, unknown>) => {
  const keys = Object.fromEntries(Object.entries(auth).map(([name, value]) => [`auth.${name}`, value]))
  return startServer({ ...(server && { on: server }), config: { 'auth.totp_enabled': true, ...keys } })
}

const receiver = await startReceiver()
after(() => receiver.close())

/** A user with an authenticator app and backup codes, and a webhook with a secret. */
async function keepSecrets(api: TestServer, email: string) {
  const { token, user } = await api.signUp(email)
  const app = await enrollTotp(api, token, user.id)
  const strong = await signInWithTotp(api, email, user.id, app)
  const { body } = await api.call('POST /api/auth/mfa/backup/generate', { as: strong.token })
  const hook = await api.call('POST /api/webhooks', { as: 'admin', json: { url: receiver.url, secret: 'hush' } })
  const backupCodes = body.codes as string[]

  const withApp = (server: TestServer) => signInWithTotp(server, email, user.id, app)
  const withBackupCode = async (server: TestServer) => {
    const as = await firstFactor(server, email)
    return server.call('POST /api/auth/mfa/backup/verify', { as, json: { code: backupCodes.pop() ?? '' } })
  }
  const testHook = (server: TestServer) => server.call(`POST /api/webhooks/${hook.body.id}/test`, { as: 'admin' })
  return { app, email, withApp, withBackupCode, testHook }
}

async function assertReadable(server: TestServer, kept: Awaited<ReturnType<typeof keepSecrets>>): Promise<void> {
  assert.ok((await kept.withApp(server)).token)
  assert.equal((await kept.withBackupCode(server)).status, 200)
  const { status, body } = await kept.testHook(server)
  assert.deepEqual([status, body.success], [200, true])
}

const sealed = async (server: TestServer): Promise<string[]> => {
  const rows = await server.sql(`select secret from svc.mfa_factors where secret is not null
    union all select secret from svc.webhooks where secret is not null
    union all select value #>> '{}' from svc.settings where key = 'auth.backup_code_key'`)
  return rows.map(({ secret }) => secret.split('.')[1])
}

const untilOneKey = (server: TestServer) => eventually(async () => assert.equal(new Set(await sealed(server)).size, 1))

test('the encryption key is changed: secrets are encrypted anew in the background, then the old key goes', async () => {
  const first = await on(undefined, { encryption_key: A })
  const kept = await keepSecrets(first, 'ana@x.test')
  const before = await sealed(first)
  assert.equal(before.length, 3)
  await first.stop()

  const second = await on(first, { encryption_key: B, previous_encryption_keys: [A] })
  await assertReadable(second, kept)
  await eventually(async () => assert.ok((await sealed(second)).every((key) => !before.includes(key))))
  await untilOneKey(second)
  assert.ok(second.observations.some(({ message }) => message === 'secrets encrypted anew'))
  await second.stop()

  const third = await on(first, { encryption_key: B })
  await assertReadable(third, kept)
  await third.stop()
})

test('a server without a key gets one: what it derived before needs no name', async () => {
  const first = await on(undefined, { jwt_secret: 'x'.repeat(40) })
  const kept = await keepSecrets(first, 'bo@x.test')
  const second = await on(first, { jwt_secret: 'x'.repeat(40), encryption_key: A })
  await assertReadable(second, kept)
  await untilOneKey(second)
  // And a new root secret, where no key was configured, is named like an old key.
  const third = await on(undefined, { jwt_secret: 'x'.repeat(40) })
  const other = await keepSecrets(third, 'cy@x.test')
  const fourth = await on(third, { jwt_secret: 'y'.repeat(40), previous_encryption_keys: ['x'.repeat(40)] })
  await assertReadable(fourth, other)
  for (const server of [first, second, third, fourth]) await server.stop()
})

test('what no key reads is said in words that help, and comes back with its key', async () => {
  const first = await on(undefined, { encryption_key: A })
  const kept = await keepSecrets(first, 'di@x.test')
  const before = await sealed(first)
  const lost = await on(first, { encryption_key: C })
  const as = await firstFactor(lost, 'di@x.test')
  const json = { challenge_id: await challenge(lost, 'totp', as), code: kept.app.code() }
  const answers = [await lost.call('POST /api/auth/mfa/totp/verify', { as, json }), await kept.withBackupCode(lost)]
  for (const { status, body } of answers) {
    assert.equal(status, 503)
    assert.match(body.message, /auth\.previous_encryption_keys/)
  }
  const { status, body: tested } = await kept.testHook(lost)
  assert.deepEqual([status, tested.success], [200, false])
  assert.match(tested.error, /auth\.previous_encryption_keys/)
  await eventually(async () => {
    const { body } = await lost.call('GET /api/admin/status', { as: 'admin' })
    const warnings = body.warnings.filter((one: string) => one.includes('auth.previous_encryption_keys'))
    assert.deepEqual(
      warnings.map((one: string) => one.split(' cannot')[0]),
      ['1 TOTP secrets', '1 keys of backup codes', '1 webhook secrets', '1 signing keys'],
    )
  })
  // New secrets are kept under the new key, old ones wait for theirs.
  const { token, user } = await lost.signUp('eve@x.test')
  const app = await enrollTotp(lost, token, user.id)
  assert.ok((await signInWithTotp(lost, 'eve@x.test', user.id, app)).token)
  const now = await sealed(lost)
  assert.ok(before.every((key) => now.includes(key)))
  const mended = await on(first, { encryption_key: C, previous_encryption_keys: [B, A] })
  await assertReadable(mended, kept)
  for (const server of [first, lost, mended]) await server.stop()
})

test('svc secrets reencrypt does the same, and fails while something cannot be read', async () => {
  const first = await on(undefined, { encryption_key: A })
  const kept = await keepSecrets(first, 'fay@x.test')
  const svc = (env: NodeJS.ProcessEnv) =>
    new Promise<{ code: number; out: string; err: string }>((resolve) => {
      const args = [...program, 'secrets', 'reencrypt']
      const all = { ...process.env, SVC_DATABASE_URL: first.databaseUrl, ...env }
      execFile(process.execPath, args, { env: all }, (error, out, err) =>
        resolve({ code: Number(error?.code ?? 0), out, err }),
      )
    })
  const refused = await svc({ SVC_AUTH_ENCRYPTION_KEY: B })
  assert.equal(refused.code, 1)
  assert.match(refused.err, /^1 TOTP secrets cannot be read: name the key .* in auth\.previous_encryption_keys; /)
  const done = await svc({ SVC_AUTH_ENCRYPTION_KEY: B, SVC_AUTH_PREVIOUS_ENCRYPTION_KEYS: A })
  assert.deepEqual(done, {
    code: 0,
    out: 'TOTP secrets: 1 encrypted anew\nTOTP secrets of administrators: 0 encrypted anew\nkeys of backup codes: 1 encrypted anew\nwebhook secrets: 1 encrypted anew\nsigning keys: 1 encrypted anew\n',
    err: '',
  })
  const second = await on(first, { encryption_key: B })
  await assertReadable(second, kept)
  for (const server of [first, second]) await server.stop()
})

test('many secrets are encrypted anew by two servers at once, each of them once', async () => {
  const first = await on(undefined, { encryption_key: A })
  const kept = await keepSecrets(first, 'gus@x.test')
  const box = new SecretBox(Buffer.from(A, 'hex'))
  for (let i = 0; i < 450; i++) {
    const id = `00000000-0000-4000-8000-${String(i).padStart(12, '0')}`
    await first.sql(
      'insert into svc.webhooks (id, url, secret, events, tables, enabled) values ($1, $2, $3, $4, $5, false)',
      [id, 'http://127.0.0.1:1/', box.seal(`secret ${i}`, `webhook ${id}`), ['create'], []],
    )
  }
  const next = { encryption_key: B, previous_encryption_keys: [A] }
  const [second, third] = await Promise.all([on(first, next), on(first, next)])
  await eventually(async () => assert.equal((await sealed(second)).length, 453))
  await untilOneKey(second)
  const rows = await second.sql(`select id, secret from svc.webhooks where not enabled`)
  const opener = new SecretBox(Buffer.from(B, 'hex'))
  assert.ok(rows.every(({ id, secret }) => opener.open(secret, `webhook ${id}`) === `secret ${Number(id.slice(-12))}`))
  await assertReadable(third, kept)
  for (const server of [first, second, third]) await server.stop()
})
