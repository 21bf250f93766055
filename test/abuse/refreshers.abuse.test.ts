import assert from 'node:assert/strict'
import { test } from 'node:test'
import { authenticator } from '../fakes/authenticator.ts'
import { mailbox } from '../fakes/mailbox.ts'
import { oauthApplication } from '../fakes/oauth-application.ts'
import { Passkey, passkeyConfig, signInWithBoth } from '../fakes/passkey.ts'
import { type Answer, startServer } from '../kit/kit.ts'

const api = await startServer({
  config: { ...passkeyConfig, 'auth.oauth_provider.enabled': true, 'auth.totp_enabled': true },
})
const operator = await api.signUp('operator@x.test')
const app = await oauthApplication(api, operator.user.id)
const mail = mailbox(api)
const password = 'long enough password'

/** Thieves who renew what they stole as fast as they can, until it is refused. */
async function beset(
  email: string,
  { thieves = 3, kinds = ['grant', 'session'] }: { thieves?: number; kinds?: readonly ('grant' | 'session')[] } = {},
) {
  const owner = await api.signUp(email)
  const many = <T>(work: () => Promise<T>) => Promise.all(Array.from({ length: thieves }, work))
  const grants = kinds.includes('grant') ? await many(() => app.granted(owner.token)) : []
  const stolen = kinds.includes('session')
    ? await many(() => api.call('POST /api/auth/login', { json: { email, password } }))
    : []
  let renewals = 0
  const renew = async (refresh: string, call: (refresh: string) => Promise<Answer>): Promise<number> => {
    const { status, body } = await call(refresh)
    if (status !== 200 || renewals > 5000) return status
    renewals++
    return renew(body.refresh_token ?? body.refreshToken, call)
  }
  const ofGrants = grants.map(({ refresh }) => renew(refresh, app.refresh))
  const ofSessions = stolen.map(({ body }) =>
    renew(body.refreshToken, (refreshToken) => api.call('POST /api/auth/refresh', { json: { refreshToken } })),
  )
  while (renewals < 2 * thieves) await new Promise(setImmediate)
  return { owner, ended: { grants: () => Promise.all(ofGrants), sessions: () => Promise.all(ofSessions) } }
}
const all = (status: number, thieves = 3) => Array<number>(thieves).fill(status)

test('a password reset wins over eight thieves who go on refreshing', async () => {
  const { ended } = await beset('reset@x.test', { thieves: 8 })
  await api.call('POST /api/auth/password-reset', { json: { email: 'reset@x.test' } })
  const json = { token: await mail.token('reset@x.test', 2), password: 'another long password' }
  assert.equal((await api.call('POST /api/auth/password-reset/confirm', { json })).status, 204)
  assert.deepEqual(await ended.grants(), all(400, 8))
  assert.deepEqual(await ended.sessions(), all(401, 8))
})

test('so does a changed password', async () => {
  const { owner, ended } = await beset('change@x.test')
  const json = { current_password: password, password: 'another long password' }
  assert.equal((await api.call('POST /api/auth/password-change', { as: owner.token, json })).status, 200)
  assert.deepEqual([await ended.grants(), await ended.sessions()], [all(400), all(401)])
})

test('so does the end of all other sessions', async () => {
  const { owner, ended } = await beset('everywhere@x.test', { kinds: ['session'] })
  const answer = await api.call('DELETE /api/auth/sessions?all_except_current=true', { as: owner.token })
  assert.equal(answer.status, 204)
  assert.deepEqual(await ended.sessions(), all(401))
})

test('so does the first second factor, which ends other sessions, and the removal of the last one', async () => {
  const { owner, ended } = await beset('factor@x.test', { kinds: ['session'] })
  const { uri } = (await api.call('POST /api/auth/mfa/totp/enroll', { as: owner.token })).body
  const json = { code: authenticator(uri).code() }
  assert.equal((await api.call('POST /api/auth/mfa/totp/enroll/confirm', { as: owner.token, json })).status, 200)
  assert.deepEqual(await ended.sessions(), all(401))

  const { owner: other, ended: endedToo } = await beset('passkey@x.test', { kinds: ['session'] })
  const passkey = new Passkey()
  const options = (await api.call('POST /api/auth/mfa/webauthn/enroll', { as: other.token })).body
  const made = { attestation_response: passkey.create(options) }
  const confirmed = await api.call('POST /api/auth/mfa/webauthn/enroll/confirm', { as: other.token, json: made })
  assert.equal(confirmed.status, 200, confirmed.text)
  assert.deepEqual(await endedToo.sessions(), all(401))
  const { token } = await signInWithBoth(api, 'passkey@x.test', passkey)
  assert.equal((await api.call('DELETE /api/auth/mfa/webauthn', { as: token })).status, 204)
})

test('so does the deletion of the account, by its owner or by the operator', async () => {
  const { owner, ended } = await beset('delete@x.test')
  assert.equal((await api.call('DELETE /api/auth/me', { as: owner.token })).status, 204)
  assert.deepEqual([await ended.grants(), await ended.sessions()], [all(400), all(401)])
  const { owner: other, ended: endedToo } = await beset('removed@x.test')
  const removal = await api.call(`DELETE /api/admin/users/${other.user.id}`, { as: 'admin' })
  assert.equal(removal.status, 204)
  assert.deepEqual([await endedToo.grants(), await endedToo.sessions()], [all(400), all(401)])
})

test('so does the operator who revokes the application', async () => {
  const own = await oauthApplication(api, operator.user.id)
  const owner = await api.signUp('client@x.test')
  const grants = await Promise.all([1, 2, 3].map(() => own.granted(owner.token)))
  const renew = async (refresh: string): Promise<number> => {
    const { status, body } = await own.refresh(refresh)
    return status === 200 ? renew(body.refresh_token) : status
  }
  const ended = Promise.all(grants.map(({ refresh }) => renew(refresh)))
  assert.equal((await api.call(`DELETE /api/admin/oauth/clients/${own.clientId}`, { as: 'admin' })).status, 204)
  assert.deepEqual(await ended, all(401))
})

test('none of them met another in a deadlock, which would be tried again and might be lost', async () => {
  const [{ deadlocks }] = await api.sql('select deadlocks from pg_stat_database where datname = current_database()')
  assert.equal(Number(deadlocks), 0)
})
