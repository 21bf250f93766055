import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { test } from 'node:test'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { testDatabase } from '../../../test/database.ts'
import { eventually } from '../../../test/eventually.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Observation } from '../../core/observe.ts'
import { Queue } from '../../db/queue/queue.ts'
import { sql } from '../../db/sql.ts'
import { createOutgoing } from '../../http/out/outgoing.ts'
import { createEmail, type Email } from './routes.ts'
import type { MailConfig } from './transport.ts'

const observations: Observation[] = []
const observe = (observation: Observation) => void observations.push(observation)
const database = await testDatabase(observe)
const db = await database.open()
const outgoing = createOutgoing({ allowPrivateNetworks: true })
database.atEnd(() => outgoing.stop())

const base: MailConfig = {
  backend: 'log',
  from: 'robot@svc.test',
  from_name: 'Shop, "Ltd"',
  smtp: { host: '127.0.0.1', port: 0, username: '', password: '', tls: 'none' },
  webhook: { url: '', secret: '', timeout: 5 },
}

/** Mail as one process of the service has it; `stop` is the end of that process. */
function startMail(config: Partial<MailConfig>): Email & { end(): Promise<void> } {
  const queue: Queue = new Queue({ db, observe })
  const email = createEmail({ db, queue, outgoing, observe, config: { ...base, ...config }, appName: 'Shop' })
  const end = async () => {
    await queue.stop()
    email.stop()
  }
  database.atEnd(end)
  return { ...email, end }
}

type Received = { to: string[]; message: string; encrypted: boolean; user: string | undefined }

/** Open connections of the mail servers, for tests that cut them. */
const sockets = new Set<Socket>()

async function smtpServer(options: SMTPServerOptions = {}): Promise<{ port: number; inbox: Received[] }> {
  const inbox: Received[] = []
  const server = new SMTPServer({
    disableReverseLookup: true,
    authOptional: true,
    onAuth: ({ username, password }, _session, done) =>
      password === 'right' ? done(null, { user: username }) : done(new Error('wrong password')),
    onData(stream, session, done) {
      let message = ''
      stream.on('data', (chunk) => (message += chunk))
      stream.on('end', () => {
        const to = session.envelope.rcptTo.map(({ address }) => address)
        inbox.push({ to, message, encrypted: session.secure, user: session.user as string | undefined })
        done()
      })
    },
    ...options,
  })
  server.on('error', () => {})
  server.server.on('connection', (socket) => sockets.add(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  database.atEnd(() => new Promise((resolve) => server.close(() => resolve(undefined))))
  return { port: (server.server.address() as AddressInfo).port, inbox }
}

const queued = () => db.rows(SYSTEM, sql`select payload from svc.queue where kind = 'mail'`)
const sent = () => eventually(async () => assert.deepEqual(await queued(), []))
/** Quoted-printable and base64 parts as the reader sees them. */
const decoded = (message: string) =>
  message
    .replace(/=\r?\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))

const LINK = 'https://shop.test/auth/reset?token=abc_DEF-123&lang=en'

test('a mail goes out over plain SMTP with its link, sender and both parts', async () => {
  const { port, inbox } = await smtpServer()
  const mail = startMail({ backend: 'smtp', smtp: { ...base.smtp, port } })
  await db.fly(SYSTEM, mail.queueMail('auth.password_reset', 'ana@x.test', { ActionURL: LINK }))
  mail.wakeMail()
  await sent()
  const [got] = inbox
  assert.deepEqual([inbox.length, got?.to, got?.encrypted], [1, ['ana@x.test'], false])
  const text = decoded(got?.message ?? '')
  assert.match(text, /^Subject: Reset your password\r$/m)
  assert.match(text, /^From: "Shop, \\"Ltd\\"" <robot@svc\.test>\r$/m)
  assert.match(text, /^Auto-Submitted: auto-generated\r$/im)
  assert.ok(text.includes(`href="${LINK.replace('&', '&amp;')}"`), 'HTML part')
  assert.ok(text.includes(`Choose a new password (${LINK})`), 'text part')
  assert.ok(text.includes('your Shop account'))
  await mail.end()
})

test('with starttls the connection is encrypted before the login', async () => {
  const { port, inbox } = await smtpServer()
  const smtp = { ...base.smtp, port, tls: 'starttls' as const, username: 'robot', password: 'right' }
  const mail = startMail({ backend: 'smtp', smtp })
  await db.fly(SYSTEM, mail.queueMail('auth.magic_link', 'ana@x.test', { ActionURL: LINK }))
  mail.wakeMail()
  await sent()
  assert.deepEqual([inbox[0]?.encrypted, inbox[0]?.user], [true, 'robot'])
  await mail.end()
})

test('with starttls a server that does not offer it gets nothing', async () => {
  const { port, inbox } = await smtpServer({ hideSTARTTLS: true, disabledCommands: ['STARTTLS'] })
  const mail = startMail({ backend: 'smtp', smtp: { ...base.smtp, port, tls: 'starttls' } })
  await db.fly(SYSTEM, mail.queueMail('auth.magic_link', 'ana@x.test', { ActionURL: LINK }))
  mail.wakeMail()
  await eventually(async () => {
    const [row] = await db.rows<{ last_error: string | null }>(SYSTEM, sql`select last_error from svc.queue`)
    assert.ok(row?.last_error)
  })
  assert.deepEqual(inbox, [])
  await mail.end()
  await db.run(SYSTEM, sql`delete from svc.queue`)
})

test('a mail queued by a process that died before sending it is sent by the next one', async () => {
  const { port, inbox } = await smtpServer()
  const queue = new Queue({ db, observe })
  const { queueMail } = createEmail({
    db,
    queue: Object.assign(queue, { work() {} }),
    outgoing,
    observe,
    config: base,
    appName: 'X',
  })
  await db.fly(SYSTEM, queueMail('auth.email_verification', 'bo@x.test', { ActionURL: LINK }))
  assert.equal((await queued()).length, 1)

  const mail = startMail({ backend: 'smtp', smtp: { ...base.smtp, port } })
  await sent()
  assert.deepEqual(inbox[0]?.to, ['bo@x.test'])
  await mail.end()
})

test('while the mail server is away the mail waits, and is sent once it is back', async () => {
  let busy = true
  const { port, inbox } = await smtpServer({
    onRcptTo: (_address, _session, done) =>
      done(busy ? Object.assign(new Error('try later'), { responseCode: 451 }) : null),
  })
  const mail = startMail({ backend: 'smtp', smtp: { ...base.smtp, port } })
  await db.fly(SYSTEM, mail.queueMail('auth.magic_link', 'ana@x.test', { ActionURL: LINK }))
  mail.wakeMail()
  await eventually(async () => {
    const [row] = await db.rows<{ last_error: string | null }>(SYSTEM, sql`select last_error from svc.queue`)
    assert.match(row?.last_error ?? '', /try later/)
  })
  busy = false
  await db.run(SYSTEM, sql`update svc.queue set run_at = now()`)
  await sent()
  assert.equal(inbox.length, 1)
  await mail.end()
})

test('a server that hangs up on the message, or on an idle connection, costs a retry and nothing else', async () => {
  let hangUp = true
  const { port, inbox } = await smtpServer({
    onMailFrom(_address, _session, done) {
      if (hangUp) for (const socket of sockets) socket.destroy()
      else done()
    },
  })
  const mail = startMail({ backend: 'smtp', smtp: { ...base.smtp, port } })
  await db.fly(SYSTEM, mail.queueMail('auth.magic_link', 'ana@x.test', { ActionURL: LINK }))
  mail.wakeMail()
  await eventually(async () => {
    const [row] = await db.rows<{ last_error: string | null }>(SYSTEM, sql`select last_error from svc.queue`)
    assert.ok(row?.last_error)
  })
  hangUp = false
  await db.run(SYSTEM, sql`update svc.queue set run_at = now()`)
  await sent()
  assert.equal(inbox.length, 1)
  for (const socket of sockets) socket.destroy()
  await db.fly(SYSTEM, mail.queueMail('auth.magic_link', 'bo@x.test', { ActionURL: LINK }))
  mail.wakeMail()
  await eventually(async () => {
    await db.run(SYSTEM, sql`update svc.queue set run_at = now() where worker is null`)
    assert.equal(inbox.length, 2)
  })
  await mail.end()
})

test('a refused recipient is given up at once, and the link is gone from the database and the log', async () => {
  const { port } = await smtpServer({
    onRcptTo: (_address, _session, done) => done(Object.assign(new Error('no such user'), { responseCode: 550 })),
  })
  const mail = startMail({ backend: 'smtp', smtp: { ...base.smtp, port } })
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
  const requests: { headers: NodeJS.Dict<string | string[]>; body: string }[] = []
  const statuses = [500, 200]
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => (body += chunk))
    request.on('end', () => {
      requests.push({ headers: request.headers, body })
      response.writeHead(statuses.shift() ?? 200).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  database.atEnd(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mail`
  const mail = startMail({ backend: 'webhook', webhook: { url, secret: 'hush', timeout: 5 } })
  await db.fly(SYSTEM, mail.queueMail('auth.magic_link', 'ana@x.test', { ActionURL: LINK }))
  mail.wakeMail()
  await eventually(() => assert.equal(requests.length, 1))
  await eventually(async () =>
    assert.equal(await db.run(SYSTEM, sql`update svc.queue set run_at = now() where worker is null`), 1),
  )
  await sent()
  const [first, second] = requests
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
