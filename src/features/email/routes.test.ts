import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Answer, startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
const at = '/api/admin/email/templates' as const
const put = (key: string, json: unknown) => api.call(`PUT ${at}/${key}`, { as: 'admin', json })
const refused = async (answer: Promise<Answer>, code: number, message: string) => {
  const { status, body } = await answer
  assert.deepEqual([status, body.code, body.message], [code, code, message])
}

test('a fresh server lists the three built-in templates', async () => {
  const { status, body } = await api.call(`GET ${at}`, { as: 'admin' })
  assert.equal(status, 200)
  assert.deepEqual(body, {
    items: [
      {
        templateKey: 'auth.email_verification',
        source: 'builtin',
        subjectTemplate: 'Verify your email',
        enabled: true,
      },
      { templateKey: 'auth.magic_link', source: 'builtin', subjectTemplate: 'Your login link', enabled: true },
      { templateKey: 'auth.password_reset', source: 'builtin', subjectTemplate: 'Reset your password', enabled: true },
    ],
    count: 3,
  })
  const one = await api.call(`GET ${at}/auth.magic_link`, { as: 'admin' })
  const { htmlTemplate, ...rest } = one.body
  assert.deepEqual(rest, {
    templateKey: 'auth.magic_link',
    source: 'builtin',
    subjectTemplate: 'Your login link',
    enabled: true,
    variables: ['AppName', 'ActionURL'],
  })
  assert.match(htmlTemplate, /\{\{\.ActionURL\}\}/)
})

test('an override is saved, toggled and deleted', async () => {
  const first = await put('auth.magic_link', {
    subjectTemplate: 'Hi {{.AppName}}',
    htmlTemplate: '<a href="{{ActionURL}}">in</a>',
  })
  assert.equal(first.status, 200)
  const { id, createdAt, updatedAt, ...rest } = first.body
  assert.match(id, /^[0-9a-f-]{36}$/)
  assert.match(createdAt, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  assert.equal(updatedAt, createdAt)
  assert.deepEqual(rest, {
    templateKey: 'auth.magic_link',
    subjectTemplate: 'Hi {{.AppName}}',
    htmlTemplate: '<a href="{{ActionURL}}">in</a>',
    enabled: true,
  })
  const effective = await api.call(`GET ${at}/auth.magic_link`, { as: 'admin' })
  assert.deepEqual([effective.body.source, effective.body.updatedAt], ['custom', updatedAt])

  const off = await api.call(`PATCH ${at}/auth.magic_link`, { as: 'admin', json: { enabled: false } })
  assert.deepEqual([off.status, off.body], [200, { templateKey: 'auth.magic_link', enabled: false }])
  assert.equal((await api.call(`GET ${at}/auth.magic_link`, { as: 'admin' })).body.source, 'builtin')
  const listed = await api.call(`GET ${at}`, { as: 'admin' })
  assert.equal(listed.body.count, 3)
  assert.deepEqual(
    listed.body.items
      .filter((item: { source: string }) => item.source === 'custom')
      .map((item: { enabled: boolean }) => item.enabled),
    [false],
  )

  const again = await put('auth.magic_link', { subjectTemplate: 'Other', htmlTemplate: '{{ActionURL}}' })
  assert.deepEqual([again.body.id, again.body.enabled], [id, false], 'a later PUT keeps the flag')

  assert.equal((await api.call(`DELETE ${at}/auth.magic_link`, { as: 'admin' })).status, 204)
  await refused(api.call(`DELETE ${at}/auth.magic_link`, { as: 'admin' }), 404, 'template not found')
  await refused(
    api.call(`PATCH ${at}/auth.magic_link`, { as: 'admin', json: { enabled: true } }),
    404,
    'template not found',
  )
})

test('a template of the operator’s own exists until it is disabled', async () => {
  await refused(api.call(`GET ${at}/shop.receipt`, { as: 'admin' }), 404, 'template not found')
  await put('shop.receipt', { subjectTemplate: 'Order {{.Order}}', htmlTemplate: '<p>{{Name}} {{.Order}}</p>' })
  const { body } = await api.call(`GET ${at}/shop.receipt`, { as: 'admin' })
  assert.deepEqual([body.source, body.variables], ['custom', ['Order', 'Name']])
  await api.call(`PATCH ${at}/shop.receipt`, { as: 'admin', json: { enabled: false } })
  await refused(api.call(`GET ${at}/shop.receipt`, { as: 'admin' }), 404, 'template not found')
})

test('wrong templates are refused with the reason', async () => {
  const good = { subjectTemplate: 's', htmlTemplate: 'h' }
  await refused(put('Auth', good), 400, 'invalid template key format')
  await refused(put('auth.x', { htmlTemplate: 'h' }), 400, 'subjectTemplate is required')
  await refused(put('auth.x', { subjectTemplate: 's' }), 400, 'htmlTemplate is required')
  await refused(put('auth.x', { ...good, subjectTemplate: '' }), 400, 'subjectTemplate is required')
  await refused(put('auth.x', { ...good, htmlTemplate: 'x'.repeat(256_001) }), 400, 'template exceeds size limit')
  await refused(put('auth.x', { ...good, htmlTemplate: 'x'.repeat(10_000_000) }), 400, 'template exceeds size limit')
  await refused(put('auth.x', { ...good, htmlTemplate: '{{.A' }), 400, 'template parse error: unclosed {{')
  await refused(
    put('auth.x', { ...good, htmlTemplate: '{{#with a}}' }),
    400,
    'template parse error: unexpected "#with a"',
  )
  await refused(api.call(`PATCH ${at}/auth.x`, { as: 'admin', json: {} }), 400, 'enabled field is required')
  for (const wrong of [1, true, [], {}, ['x'], { a: 1 }]) {
    assert.equal((await put('auth.x', { ...good, subjectTemplate: wrong })).status, 400)
    assert.equal((await put('auth.x', { ...good, htmlTemplate: wrong })).status, 400)
    assert.equal((await put('auth.x', wrong)).status, 400)
    const patched = await api.call(`PATCH ${at}/auth.x`, {
      as: 'admin',
      json: { enabled: wrong === true ? 'true' : wrong },
    })
    assert.equal(patched.status, 400)
  }
  assert.deepEqual(await api.sql(`select from svc.email_templates where template_key = 'auth.x'`), [])
})

test('a preview renders and saves nothing', async () => {
  const json = {
    subjectTemplate: 'Hi {{Name}}',
    htmlTemplate: '<h1>Hello {{.Name}}</h1><p>you have {{N}} &amp; more</p>',
    variables: { Name: '<Ana>\r\nBcc: x@x.test', N: 3 },
  }
  const { status, body } = await api.call(`POST ${at}/shop.new/preview`, { as: 'admin', json })
  assert.equal(status, 200)
  const { url, ...rendered } = body
  assert.match(url, /^\/api\/email\/previews\/[0-9a-f]{64}$/)
  assert.deepEqual(rendered, {
    subject: 'Hi <Ana>Bcc: x@x.test',
    html: '<h1>Hello &lt;Ana&gt;\r\nBcc: x@x.test</h1><p>you have 3 &amp; more</p>',
    text: 'Hello <Ana> Bcc: x@x.test\n\nyou have 3 & more',
  })
  await refused(api.call(`GET ${at}/shop.new`, { as: 'admin' }), 404, 'template not found')
  const preview = (variables: unknown) =>
    api.call(`POST ${at}/shop.new/preview`, { as: 'admin', json: { ...json, variables } })
  await refused(preview({}), 400, 'template render error: missing variable "Name"')
  await refused(preview({ Name: {}, N: 1 }), 400, 'template render error: variable "Name" must be a string')
  await refused(preview([]), 400, 'variables must be an object')
  await refused(preview('x'), 400, 'variables must be an object')
  const body2 = `{"subjectTemplate":"s","htmlTemplate":"{{polluted}}","variables":{"__proto__":{"polluted":"yes"},"constructor":{"prototype":{"polluted":"yes"}}}}`
  const polluted = await api.call(`POST ${at}/shop.new/preview`, {
    as: 'admin',
    body: body2,
    headers: { 'content-type': 'application/json' },
  })
  assert.equal(polluted.status, 400)
})

test('an administrator sends a mail and waits for the outcome', async () => {
  const send = (json: unknown) => api.call('POST /api/admin/email/send', { as: 'admin', json })
  const variables = { AppName: 'Shop', ActionURL: 'https://shop.test/?token=abc' }
  const sent = await send({ templateKey: 'auth.magic_link', to: 'ana@x.test', variables })
  assert.deepEqual([sent.status, sent.body], [200, { status: 'sent' }])
  const mail = api.observations.findLast(({ message }) => message === 'mail')
  assert.equal(mail?.attrs?.['to'], 'ana@x.test')
  assert.ok(String(mail?.attrs?.['text']).includes('https://shop.test/?token=abc'))

  await refused(send({ to: 'ana@x.test' }), 400, 'templateKey is required')
  await refused(send({ templateKey: 'auth.magic_link' }), 400, 'to is required')
  await refused(send({ templateKey: 'Nope', to: 'ana@x.test' }), 400, 'invalid template key format')
  await refused(send({ templateKey: 'shop.nothing', to: 'ana@x.test' }), 404, 'template not found')
  await refused(
    send({ templateKey: 'auth.magic_link', to: 'ana@x.test', variables: { AppName: 'x' } }),
    400,
    'template render error: missing variable "ActionURL"',
  )
  for (const to of [
    'ana',
    'ana@',
    '@x.test',
    'a@b@c',
    'ana@x.test, bo@x.test',
    'Ana <ana@x.test>',
    'ana@x.test\r\nBcc: bo@x.test',
    `${'a'.repeat(320)}@x.test`,
    'ana@x..test',
    '"a b"@x.test',
  ]) {
    await refused(send({ templateKey: 'auth.magic_link', to, variables }), 400, 'invalid email address')
  }
  for (const wrong of [1, true, [], {}]) {
    assert.equal((await send({ templateKey: wrong, to: 'ana@x.test' })).status, 400)
    assert.equal((await send({ templateKey: 'auth.magic_link', to: wrong })).status, 400)
  }
})

test('a mail the gateway does not take is a 500 that tells nothing', async () => {
  const broken = await startServer({
    on: api,
    config: {
      'email.backend': 'smtp',
      'email.from': 'a@x.test',
      'email.smtp.host': '127.0.0.1',
      'email.smtp.port': 1,
      'email.smtp.tls': 'none',
    },
  })
  const variables = { AppName: 'Shop', ActionURL: 'https://shop.test/' }
  const json = { templateKey: 'auth.magic_link', to: 'ana@x.test', variables }
  await refused(broken.call('POST /api/admin/email/send', { as: 'admin', json }), 500, 'failed to send email')
  await broken.stop()
})
