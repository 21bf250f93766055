import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mailbox } from '../fakes/mailbox.ts'
import { eventually, startServer } from '../kit/kit.ts'
import { overhearStatements } from '../kit/statements.ts'

const config = { 'auth.magic_link_enabled': true, 'auth.email_mfa_enabled': true }
const api = await startServer({ config })
const mail = mailbox(api)
const times = (count: number) => Array.from({ length: count })
const askReset = (email: string, server = api) => server.call('POST /api/auth/password-reset', { json: { email } })
const askLink = (email: string) => api.call('POST /api/auth/magic-link', { json: { email } })
const reset = (token: string) =>
  api.call('POST /api/auth/password-reset/confirm', { json: { token, password: 'another long password' } })
const confirmLink = (token: string) => api.call('POST /api/auth/magic-link/confirm', { json: { token } })
const tokensTo = (email: string) => mail.mails(email).map(({ text }) => /token=([\w-]+)/.exec(text)?.[1] ?? '')
const queueIsEmpty = () =>
  eventually(async () => assert.deepEqual(await api.sql(`select id from svc.queue where kind = 'mail'`), []))

test('one address is mailed ten links an hour, whoever asks and for what; codes and notices are counted apart', async () => {
  const { token } = await api.signUp('ana@x.test')
  for (const { status } of await Promise.all(times(20).map(() => askReset('Ana@x.test')))) assert.equal(status, 204)
  for (const { status } of await Promise.all(times(20).map(() => askLink('ana@x.test')))) assert.equal(status, 200)
  assert.equal((await api.call('POST /api/auth/verify/resend', { as: token })).status, 204)
  await queueIsEmpty()
  assert.equal(mail.mails('ana@x.test').length, 10)
  const [{ count }] = await api.sql(`select count(*) from svc.mail_tokens where email = 'ana@x.test'`)
  assert.equal(Number(count), 10, 'nor is a token kept that was not mailed')
  assert.equal((await api.call('POST /api/auth/mfa/email/enroll', { as: token })).status, 200)
  await mail.mailedCode('ana@x.test')

  await api.sql(`update svc.rate_counters set ends_at = now() - interval '1 second' where key like 'mail %'`)
  await askReset('ana@x.test')
  await eventually(() => assert.equal(mail.mails('ana@x.test').length, 12))
})

test('a registration deleted and made again does not mail its address more often', async () => {
  for (const _ of times(12)) {
    const { token } = await api.signUp('victim@x.test')
    assert.equal((await api.call('DELETE /api/auth/me', { as: token })).status, 204)
  }
  await queueIsEmpty()
  assert.equal(mail.mails('victim@x.test').length, 10)
})

test('a new request ends no earlier link; the first one used ends the others of its kind', async () => {
  const { token } = await api.signUp('bo@x.test')
  for (const ask of [askReset, askReset, askReset, askLink, askLink]) assert.ok((await ask('bo@x.test')).status < 300)
  await eventually(() => assert.equal(mail.mails('bo@x.test').length, 6))
  const ofPage = (page: string) =>
    mail.mails('bo@x.test').flatMap(({ text }) => new RegExp(`${page}\\?token=([\\w-]+)`).exec(text)?.[1] ?? [])
  const [first = '', second = '', third = ''] = ofPage('reset')
  const [link = '', otherLink = ''] = ofPage('magic-link')
  const raced = await Promise.all([reset(first), reset(second)])
  assert.deepEqual(raced.map(({ status }) => status).sort(), [204, 400])
  assert.equal((await reset(third)).status, 400)
  assert.equal((await api.call('GET /api/auth/me', { as: token })).status, 401)
  const opened = await Promise.all([confirmLink(link), confirmLink(otherLink)])
  assert.deepEqual(opened.map(({ status }) => status).sort(), [200, 400], 'links of another kind stay')

  const cy = await api.signUp('cy@x.test')
  await api.call('POST /api/auth/verify/resend', { as: cy.token })
  await eventually(() => assert.equal(mail.mails('cy@x.test').length, 2))
  const verify = (link: string | undefined) => api.call('POST /api/auth/verify', { json: { token: link } })
  const [old, later] = tokensTo('cy@x.test')
  assert.deepEqual([(await verify(old)).status, (await verify(later)).status], [204, 400])
})

test('a reset of an unknown address is the same work, up to the mail that is not sent', async () => {
  await api.signUp('known@x.test')
  await queueIsEmpty()
  const line = await overhearStatements(api.databaseUrl)
  const server = await startServer({ config, on: { databaseUrl: line.url } })
  const work = async (email: string) => {
    const statements = await line.during(() => askReset(email, server))
    // Readers of the change log write by themselves.
    return statements.filter((text) => text.includes('insert into svc.') && !text.includes('svc.change_readers'))
  }
  await work('warm@x.test')
  const [known, unknown] = [await work('known@x.test'), await work('unknown@x.test')]
  assert.deepEqual(unknown, known)
  assert.equal(known.length, 1, 'one statement for all of it')
  await queueIsEmpty()
  // Either server may have taken them from the queue.
  const mailed = (to: string) => [mail, mailbox(server)].flatMap((box) => box.mails(to)).length
  assert.deepEqual(['known@x.test', 'unknown@x.test', 'warm@x.test'].map(mailed), [2, 0, 0])
  await server.stop()
  await line.close()
})
