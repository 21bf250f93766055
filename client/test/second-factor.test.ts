import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { authenticator, forgetSteps } from '../../test/fakes/authenticator.ts'
import { mailbox } from '../../test/fakes/mailbox.ts'
import { type InProcessServer, startServer } from '../../test/kit/kit.ts'
import { ApiError, createClient } from '../src/main.ts'

const PHONE = '+15005550006'
const password = 'long enough password'

let api: InProcessServer
before(async () => {
  api = await startServer({
    config: {
      'auth.totp_enabled': true,
      'auth.sms_enabled': true,
      'auth.sms_test_phone_numbers': { [PHONE]: '123456' },
      'auth.anonymous_auth_enabled': true,
      'auth.magic_link_enabled': true,
    },
  })
})

test('a sign-in that needs a second factor has signed nobody in before it', async () => {
  const svc = createClient(api.url)
  const account = { email: 'two@x.test', password }
  await svc.auth.register(account)
  const { uri } = await svc.auth.mfa.enroll('totp')
  const app = authenticator(uri)
  await svc.auth.mfa.confirm('totp', { code: app.code() })
  await forgetSteps(api, svc.auth.session?.user.id ?? '')
  await svc.auth.logout()

  const { mfa, user } = await svc.auth.login(account)
  assert.deepEqual([user, mfa?.methods, svc.auth.session], [undefined, ['totp'], null])
  await assert.rejects(
    async () => mfa?.totp(app.wrongCode()),
    (error) => error instanceof ApiError && error.is('invalid_code'),
  )
  assert.equal(svc.auth.session, null)
  const signedIn = await mfa?.totp(app.code())
  assert.equal(signedIn?.user.email, 'two@x.test')
  const codes = await svc.auth.mfa.backupCodes()
  assert.equal(codes.length, 10)
  await svc.auth.logout()

  const again = await svc.auth.login(account)
  assert.deepEqual(again.mfa?.methods, ['totp', 'backup'])
  const backedUp = await again.mfa?.backup(codes[0] ?? '')
  assert.equal(backedUp?.user.email, 'two@x.test')
})

test('codes by SMS, and accounts without a name that get one', async () => {
  const svc = createClient(api.url)
  await svc.auth.sms({ phone: PHONE })
  const { user } = await svc.auth.sms({ phone: PHONE, code: '123456' })
  assert.equal(user?.phone, PHONE)
  await svc.auth.logout()

  const { user: nameless } = await svc.auth.loginAnonymously()
  assert.equal(nameless.is_anonymous, true)
  const { user: named } = await svc.auth.link({ email: 'named@x.test', password })
  assert.deepEqual([named.id, named.is_anonymous], [nameless.id, false])
})

test('a link by mail', async () => {
  const svc = createClient(api.url)
  await svc.auth.magicLink({ email: 'link@x.test' })
  assert.equal(svc.auth.session, null)
  await assert.rejects(
    svc.auth.magicLink({ token: 'wrong' }),
    (error) => error instanceof ApiError && error.is('invalid_link'),
  )
  const { user } = await svc.auth.magicLink({ token: await mailbox(api).token('link@x.test') })
  assert.deepEqual([user?.email, user?.emailVerified], ['link@x.test', true])
  await svc.auth.resetPassword({ email: 'link@x.test' })
  const token = await mailbox(api).token('link@x.test', 2)
  await svc.auth.confirmReset({ token, password })
  assert.equal((await svc.auth.login({ email: 'link@x.test', password })).user?.id, user?.id)
})
