import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { mailServer, WITH_STARTTLS } from '../../../test/fakes/mail-server.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { messageTest } from '../../../test/kit/messages.ts'
import { SYSTEM } from '../../core/identity.ts'
import { sql } from '../../db/sql.ts'
import { createEmail, type Email } from './routes.ts'
import type { MailConfig } from './transport.ts'

const messages = await messageTest()
const { db, outgoing, observe, observations, queued, failure, hurry } = messages
const sent = () => messages.allSent()

const base: MailConfig = {
  backend: 'log',
  from: 'robot@svc.test',
  from_name: 'Shop, "Ltd"',
  smtp: { host: '127.0.0.1', port: 0, username: '', password: '', tls: 'none' },
  webhook: { url: '', secret: '', timeout: 5 },
}

/** Mail as one process of the service has it; `stop` is the end of that process. */
function startMail(config: Partial<MailConfig>): Email & { end(): Promise<void> } {
  const queue = messages.newQueue()
  const email = createEmail({ db, queue, outgoing, observe, config: { ...base, ...config }, appName: 'Shop' })
  email.start()
  const end = async () => {
    await queue.stop()
    email.stop()
  }
  messages.atEnd(end)
  return { ...email, end }
}

const LINK = 'https://shop.test/auth/reset?token=abc_DEF-123&lang=en'

test('a mail goes out over plain SMTP with its link, sender and both parts', async () => {
  const { inbox, listen } = mailServer()
  const mail = startMail({ backend: 'smtp', smtp: { ...base.smtp, port: await listen() } })
  await db.fly(SYSTEM, mail.queueMail('auth.password_reset', 'ana@x.test', { ActionURL: LINK }))
  mail.wakeMail()
  await sent()
  const [got] = inbox
  assert.deepEqual([inbox.length, got?.to, got?.encrypted], [1, 'ana@x.test', false])
  const text = got?.text ?? ''
  assert.match(text, /^Subject: Reset your password\r$/m)
  assert.match(text, /^From: "Shop, \\"Ltd\\"" <robot@svc\.test>\r$/m)
  assert.match(text, /^Auto-Submitted: auto-generated\r$/im)
  assert.ok(text.includes(`href="${LINK.replace('&', '&amp;')}"`), 'HTML part')
  assert.ok(text.includes(`Choose a new password (${LINK})`), 'text part')
  assert.ok(text.includes('your Shop account'))
  await mail.end()
})

test('with starttls the connection is encrypted before the login', async () => {
  const { inbox, listen } = mailServer(WITH_STARTTLS)
  const smtp = { ...base.smtp, port: await listen(), tls: 'starttls' as const, username: 'robot', password: 'right' }
  const mail = startMail({ backend: 'smtp', smtp })
  await db.fly(SYSTEM, mail.queueMail('auth.magic_link', 'ana@x.test', { ActionURL: LINK }))
  mail.wakeMail()
  await sent()
  assert.deepEqual([inbox[0]?.encrypted, inbox[0]?.user], [true, 'robot'])
  await mail.end()
})

test('with starttls a server that does not offer it gets nothing', async () => {
  const { inbox, listen } = mailServer()
  const mail = startMail({ backend: 'smtp', smtp: { ...base.smtp, port: await listen(), tls: 'starttls' } })
  await db.fly(SYSTEM, mail.queueMail('auth.magic_link', 'ana@x.test', { ActionURL: LINK }))
  mail.wakeMail()
  await failure()
  assert.deepEqual(inbox, [])
  await mail.end()
  await db.run(SYSTEM, sql`delete from svc.queue`)
})

test('a mail queued by a process that died before sending it is sent by the next one', async () => {
  const { inbox, listen } = mailServer()
  const queue = messages.newQueue()
  const { queueMail } = createEmail({ db, queue, outgoing, observe, config: base, appName: 'X' })
  await db.fly(SYSTEM, queueMail('auth.email_verification', 'bo@x.test', { ActionURL: LINK }))
  assert.equal((await queued()).length, 1)

  const mail = startMail({ backend: 'smtp', smtp: { ...base.smtp, port: await listen() } })
  await sent()
  assert.equal(inbox[0]?.to, 'bo@x.test')
  await mail.end()
})

test('while the mail server is away the mail waits, and is sent once it is back', async () => {
  let busy = true
  const { inbox, listen } = mailServer({
    onRcptTo: (_address, _session, done) =>
      done(busy ? Object.assign(new Error('try later'), { responseCode: 451 }) : null),
  })
  const mail = startMail({ backend: 'smtp', smtp: { ...base.smtp, port: await listen() } })
  await db.fly(SYSTEM, mail.queueMail('auth.magic_link', 'ana@x.test', { ActionURL: LINK }))
  mail.wakeMail()
  assert.match(await failure(), /try later/)
  busy = false
  await hurry()
  await sent()
  assert.equal(inbox.length, 1)
  await mail.end()
})

test('a server that hangs up on the message, or on an idle connection, costs a retry and nothing else', async () => {
  let hangUp = true
  const { inbox, listen, cut } = mailServer({
    onMailFrom(_address, _session, done) {
      if (hangUp) cut()
      else done()
    },
  })
  const mail = startMail({ backend: 'smtp', smtp: { ...base.smtp, port: await listen() } })
  await db.fly(SYSTEM, mail.queueMail('auth.magic_link', 'ana@x.test', { ActionURL: LINK }))
  mail.wakeMail()
  await failure()
  hangUp = false
  await hurry()
  await sent()
  assert.equal(inbox.length, 1)
  cut()
  await db.fly(SYSTEM, mail.queueMail('auth.magic_link', 'bo@x.test', { ActionURL: LINK }))
  mail.wakeMail()
  await eventually(async () => {
    await hurry()
    assert.equal(inbox.length, 2)
  })
  await mail.end()
})

test('a refused recipient is given up at once, and the link is gone from the database and the log', async () => {
  const { listen } = mailServer({
    onRcptTo: (_address, _session, done) => done(Object.assign(new Error('no such user'), { responseCode: 550 })),
  })
  const mail = startMail({ backend: 'smtp', smtp: { ...base.smtp, port: await listen() } })
  const before = observations.length
  await db.fly(SYSTEM, mail.queueMail('auth.magic_link', 'nobody@x.test', { ActionURL: LINK }))
  mail.wakeMail()
  await sent()
  const said = observations.slice(before)
  assert.ok(said.some(({ message }) => message === 'queue: item is dead'))
  assert.ok(!JSON.stringify(said).includes('abc_DEF'))
  await mail.end()
})

test('the webhook backend gets the message with a signature over the raw body', async () => {
  const { url, received } = await messages.gateway((n) => (n === 1 ? 500 : 200))
  const mail = startMail({ backend: 'webhook', webhook: { url: `${url}/mail`, secret: 'hush', timeout: 5 } })
  await db.fly(SYSTEM, mail.queueMail('auth.magic_link', 'ana@x.test', { ActionURL: LINK }))
  mail.wakeMail()
  await eventually(() => assert.equal(received.length, 1))
  await eventually(async () => assert.equal(await hurry(), 1))
  await sent()
  const [first, second] = received
  assert.equal(second?.body, first?.body)
  assert.equal(second?.headers['idempotency-key'], first?.headers['idempotency-key'])
  assert.equal(first?.headers['content-type'], 'application/json')
  assert.equal(
    first?.headers['x-svc-signature'],
    createHmac('sha256', 'hush')
      .update(first?.body ?? '')
      .digest('hex'),
  )
  const { to, subject, html, text, from } = JSON.parse(first?.body ?? '')
  assert.deepEqual([to, subject, from], ['ana@x.test', 'Your login link', 'robot@svc.test'])
  assert.ok(html.includes('token=abc_DEF-123') && text.includes(LINK))
  await mail.end()
})

test('an override is used, and gives way to the built-in template when it fails or loses the link', async () => {
  const mail = startMail({ backend: 'log' })
  const override = (html: string) =>
    db.run(
      SYSTEM,
      sql`insert into svc.email_templates (template_key, subject_template, html_template) values ('auth.magic_link', 'Hi from {{AppName}}', ${html})
          on conflict (template_key) do update set html_template = excluded.html_template`,
    )
  const mailed = async () => {
    const before = observations.length
    await db.fly(SYSTEM, mail.queueMail('auth.magic_link', 'ana@x.test', { ActionURL: LINK }))
    mail.wakeMail()
    await sent()
    return observations.slice(before).find(({ message }) => message === 'mail')?.attrs
  }
  await override('<p>Go: {{.ActionURL}}</p>')
  assert.deepEqual(await mailed(), { to: 'ana@x.test', subject: 'Hi from Shop', text: `Go: ${LINK}` })

  await override('<p>Go! {{.Missing}} {{.ActionURL}}</p>')
  assert.equal((await mailed())?.['subject'], 'Your login link')

  await override('<p>Welcome to {{.AppName}}</p>')
  const attrs = await mailed()
  assert.equal(attrs?.['subject'], 'Your login link')
  assert.ok(String(attrs?.['text']).includes(LINK))
})
