import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { after, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { startReceiver } from '../../../test/fakes/receiver.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'

const hook = await startReceiver()
const elsewhere = await startReceiver()
after(() => Promise.all([hook.close(), elsewhere.close()]))
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const names = ['before_sign_up', 'before_sign_in', 'token_claims', 'send_email', 'send_sms']
const config = {
  'auth.hooks.secret': secret,
  'auth.sms_enabled': true,
  ...Object.fromEntries(names.map((name) => [`auth.hooks.${name}`, `${hook.url}/${name}`])),
}
const api = await startServer({ config })
const password = 'long enough password'
const register = (email: string, on = api) => on.call('POST /api/auth/register', { json: { email, password } })

type Answer = (response: ServerResponse) => void
const json =
  (value: unknown, status = 200): Answer =>
  (response) =>
    void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
/** Answers one hook, and lets everything else through. */
const answering = (name: string, answer: Answer) => {
  hook.answer = ({ path }, response) => (path === `/${name}` ? answer(response) : void response.writeHead(204).end())
}

test('each hook gets a signed event', async () => {
  answering('before_sign_up', json({ metadata: { a: 1 } }))
  // The client of outgoing calls is loaded with the first, which a busy machine takes long for.
  await eventually(async () => assert.ok([201, 409].includes((await register('ada@x.test')).status)))
  await api.call('POST /api/auth/sms', { json: { phone: '+4915112345678' } })
  await eventually(() => assert.equal(new Set(hook.received.map(({ path }) => path)).size, 5))
  for (const { path, headers, body } of hook.received) {
    const event = new Webhook(secret).verify(body, headers as Record<string, string>) as Record<string, unknown>
    assert.deepEqual(
      [event['hook'], headers['x-svc-event'], headers['webhook-id']],
      [path.slice(1), path.slice(1), event['id']],
    )
  }
  const of = (name: string) => JSON.parse(hook.received.find(({ path }) => path === `/${name}`)?.body ?? '')
  assert.equal(of('send_email').mail.template, 'auth.email_verification')
  assert.match(of('send_email').mail.html, /token=/)
  assert.match(of('send_sms').sms.body, /\d{6}/)
  assert.equal(of('before_sign_in').user.email, 'ada@x.test')
  assert.deepEqual(of('token_claims').session.amr, ['password'])
})

test('a 4xx refuses, with the message it has', async () => {
  const cases: [Answer, string][] = [
    [json({ message: 'not here' }, 422), 'not here'],
    [json({ message: 'two\nlines\u0000' }, 400), 'two lines'],
    [json({ message: 'x'.repeat(5000) }, 403), 'x'.repeat(300)],
    [json({ message: { no: 'text' } }, 403), 'the sign-up was refused'],
    [(response) => void response.writeHead(404).end('<html>'), 'the sign-up was refused'],
    [(response) => void response.writeHead(403).end(`{"message":"${'y'.repeat(100_000)}"}`), 'the sign-up was refused'],
  ]
  for (const [answer, message] of cases) {
    answering('before_sign_up', answer)
    const { status, body } = await register('no@x.test')
    assert.deepEqual([status, body.error, body.message], [403, 'hook_refused', message])
  }
})

const deep = `${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}`
const failures: Record<string, Answer> = {
  'no end': (response) => void response.writeHead(200).write('{"metadata":'),
  'an error': (response) => void response.writeHead(500).end('{"message":"secret"}'),
  'a redirect': (response) => void response.writeHead(307, { location: elsewhere.url }).end(),
  'no JSON': (response) => void response.end('yes'),
  'no object': json(['metadata']),
  'too much': (response) => void response.end(`{"metadata":{"a":"${'a'.repeat(200_000)}"}}`),
  'too much metadata': json({ metadata: { a: 'a'.repeat(20_000) } }),
  'too deep': (response) => void response.end(`{"metadata":${deep}}`),
  'what jsonb does not take': json({ metadata: { a: '\u0000' } }),
  'half a character': (response) => void response.end('{"metadata":{"a":"\\ud800"}}'),
  'metadata that is none': json({ metadata: 'x' }),
  'an unknown member': json({ error: { message: 'no' } }),
  'a cut connection': (response) => void response.destroy(),
}

test('whatever else it answers is a failure, which refuses and tells no more', async () => {
  const cases = Object.entries(failures)
  hook.answer = ({ body }, response) => {
    const [, n] = /case-(\d+)@/.exec(body) ?? []
    if (n === undefined) response.writeHead(204).end()
    else cases[Number(n)]?.[1](response)
  }
  const attempt = async (n: number) => {
    const { status, body } = await register(`case-${n}@x.test`)
    const expected = { code: 503, error: 'hook_failed', message: 'the sign-up cannot be checked now' }
    assert.deepEqual([cases[n]?.[0], status, body], [cases[n]?.[0], 503, expected])
  }
  const [slow, ...quick] = cases.keys()
  const waiting = attempt(slow ?? 0)
  for (const n of quick) await attempt(n)
  await waiting
  const failed = api.observations.filter(({ message }) => message === 'auth hook failed')
  assert.ok(failed.length >= cases.length)
  assert.ok(failed.some(({ attrs }) => (attrs as Record<string, unknown>)['reason'] === 'no answer within 2000 ms'))
  assert.deepEqual(elsewhere.received, [])
  assert.deepEqual(await api.sql(`select 1 as one from svc.users where email like 'case-%'`), [])
})

test('claims of the server are refused, and those that are too many', async () => {
  const hostile = [
    { sub: 'x' },
    { aal: 'aal2' },
    { exp: 9_999_999_999 },
    { org: 'x' },
    { mfa_pending: true },
    { app_metadata: {} },
    { claims: { sid: 'x' } },
    { claims: {}, more: 1 },
    { a: 'a'.repeat(4_090) },
    { a: '\u0000' },
  ]
  for (const claims of hostile) {
    answering('token_claims', json(claims))
    const { status, body } = await api.call('POST /api/auth/login', { json: { email: 'ada@x.test', password } })
    assert.deepEqual([status, body.error], [503, 'hook_failed'], JSON.stringify(claims).slice(0, 60))
  }
  answering(
    'token_claims',
    (response) => void response.end('{"__proto__":{"sub":"x"},"role":"svc_admin","toString":1}'),
  )
  const { status, body } = await api.call('POST /api/auth/login', { json: { email: 'ada@x.test', password } })
  assert.equal(status, 200)
  const claims = JSON.parse(Buffer.from(body.token.split('.')[1], 'base64url').toString())
  assert.deepEqual([claims.sub, claims.role, claims.toString], [body.user.id, 'svc_admin', 1])
})

test('where the operator says so, a failing hook is skipped; a refusal is not', async () => {
  const server = await startServer({
    on: api,
    config: { ...config, 'auth.hooks.before_sign_up_on_error': 'skip', 'auth.hooks.send_email_on_error': 'skip' },
  })
  await api.stop()
  hook.answer = ({ path }, response) =>
    void response.writeHead(path === '/before_sign_up' || path === '/send_email' ? 500 : 204).end()
  assert.equal((await register('skips@x.test', server)).status, 201)
  assert.ok(await mailbox(server).token('skips@x.test'))
  answering('before_sign_up', json({ message: 'no' }, 400))
  assert.equal((await register('refused@x.test', server)).status, 403)
  answering('send_email', json({ message: 'no' }, 400))
  assert.equal((await register('given.up@x.test', server)).status, 201)
  await eventually(async () =>
    assert.deepEqual(await server.sql(`select payload from svc.queue where payload ->> 'to' = 'given.up@x.test'`), []),
  )
  assert.deepEqual(mailbox(server).mails('given.up@x.test'), [])
})
