import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { startApns, startFcm } from '../../../test/fakes/push-services.ts'
import { type Answer, eventually, startServer } from '../../../test/kit/kit.ts'

const [fcm, apns] = [await startFcm(), await startApns()]
after(() => {
  fcm.close()
  apns.close()
})
const config = {
  'push.enabled': true,
  'push.fcm.credentials_file': fcm.credentialsFile,
  'push.fcm.endpoint': fcm.url,
  'push.apns.key_file': apns.keyFile,
  'push.apns.team_id': 'TEAM123456',
  'push.apns.key_id': 'KEY1234567',
  'push.apns.bundle_id': 'com.example.app',
  'push.apns.endpoint': apns.url,
}
const api = await startServer({ config })
const asAdmin = { as: 'admin' }
const told = ({ status, body }: Answer) => `${status} ${body.message}`
const [ann, bob] = [await api.signUp('ann@x.test'), await api.signUp('bob@x.test')]
const app = (await api.call('POST /api/admin/apps', { ...asAdmin, json: { name: 'shop', ownerUserId: ann.user.id } }))
  .body.id as string
const NOBODY = '00000000-0000-4000-8000-000000000000'

let count = 0
const register = async (provider: 'fcm' | 'apns', user = ann) => {
  const json = {
    app_id: app,
    provider,
    platform: provider === 'fcm' ? 'android' : 'ios',
    token: `t${++count}:ä/${'x'.repeat(20)}`,
  }
  const { status, body } = await api.call('POST /api/push/devices', { as: user.token, json })
  assert.equal(status, 201)
  return body as { id: string; token: string; user_id: string }
}
const sendTo = async (id: string, more: object = {}) => {
  const json = { token_id: id, title: 'Hi', body: 'there', ...more }
  const answer = await api.call('POST /api/admin/push/send-to-token', { ...asAdmin, json })
  assert.equal(answer.status, 200)
  assert.equal(answer.body.status, 'pending')
  return answer.body as { id: string; job_id: string }
}
const delivery = async (id: string) => (await api.call(`GET /api/admin/push/deliveries/${id}`, asAdmin)).body
const become = (id: string, status: string) =>
  eventually(async () => {
    const found = await delivery(id)
    assert.equal(found.status, status)
    return found
  })
const job = async (id: string) => (await api.call(`GET /api/admin/jobs/${id}`, asAdmin)).body
const hurry = (jobId: string) =>
  api.sql(`update svc.jobs set run_at = now() where id = $1 and state = 'queued'`, [jobId])
const isActive = async (id: string) => {
  const [row] = await api.sql(`select is_active from svc.push_devices where id = $1`, [id])
  return row.is_active === 't'
}

test('a message to a user reaches every active device, signed and shaped as each service wants', async () => {
  const [android, iphone, gone] = [await register('fcm', bob), await register('apns', bob), await register('fcm', bob)]
  assert.equal((await api.call(`DELETE /api/push/devices/${gone.id}`, { as: bob.token })).status, 204)
  const json = { app_id: app, user_id: bob.user.id, title: 'Sale', body: 'Today', data: { deep: 'link' } }
  const { status, body } = await api.call('POST /api/admin/push/send', { ...asAdmin, json })
  assert.equal(status, 200)
  assert.equal(body.deliveries.length, 2)
  const sent = await Promise.all(body.deliveries.map(({ id }: { id: string }) => become(id, 'sent')))
  const byProvider = Object.fromEntries(sent.map((one) => [one.provider, one]))
  assert.match(byProvider['fcm'].provider_message_id, /^projects\/demo\/messages\//)
  assert.equal(byProvider['apns'].provider_message_id, byProvider['apns'].id)
  assert.ok(byProvider['fcm'].sent_at)
  const [google] = fcm.heard.filter(({ token }) => token === android.token)
  assert.deepEqual([google?.body.notification, google?.body.data], [{ title: 'Sale', body: 'Today' }, { deep: 'link' }])
  const [apple] = apns.heard.filter(({ token }) => token === iphone.token)
  assert.deepEqual(apple?.body, { deep: 'link', aps: { alert: { title: 'Sale', body: 'Today' } } })
  assert.equal(apple?.headers['apns-topic'], 'com.example.app')
  assert.equal(apple?.headers['apns-push-type'], 'alert')
  assert.equal(fcm.heard.filter(({ token }) => token === gone.token).length, 0)
  const [device] = await api.sql(`select last_used is not null as used from svc.push_devices where id = $1`, [
    android.id,
  ])
  assert.equal(device.used, 't')
})

test('connections and tokens are used again', async () => {
  const devices = [await register('fcm'), await register('apns')]
  for (let i = 0; i < 3; i++) for (const { id } of devices) await become((await sendTo(id)).id, 'sent')
  assert.equal(fcm.tokensSold, 1)
  assert.equal(apns.tokens.size, 1)
  assert.equal(apns.connections, 1)
  assert.ok(fcm.connections() <= 4, `${fcm.connections()}`)
})

test('an access token that Google no longer takes is bought anew within the attempt', async () => {
  const { id } = await register('fcm')
  fcm.accessToken = 'access-2'
  const sent = await sendTo(id)
  await become(sent.id, 'sent')
  assert.equal((await job(sent.job_id)).attempts, 1)
  assert.equal(fcm.tokensSold, 2)
})

test('tokens that a service says are over are sent to no more', async () => {
  const unregistered = { error: { status: 'NOT_FOUND', message: 'gone', details: [{ errorCode: 'UNREGISTERED' }] } }
  fcm.answer = () => ({ status: 404, body: unregistered })
  const android = await register('fcm')
  const over = await become((await sendTo(android.id)).id, 'invalid_token')
  assert.equal(over.error_code, 'UNREGISTERED')
  assert.equal(await isActive(android.id), false)
  for (const [status, reason] of [
    [410, 'Unregistered'],
    [400, 'BadDeviceToken'],
    [400, 'DeviceTokenNotForTopic'],
  ] as const) {
    apns.answer = () => ({ status, body: { reason } })
    const iphone = await register('apns')
    const { id, job_id } = await sendTo(iphone.id)
    assert.equal((await become(id, 'invalid_token')).error_code, reason)
    assert.equal(await isActive(iphone.id), false)
    await eventually(async () => assert.equal((await job(job_id)).state, 'completed'))
    const again = await api.call('POST /api/admin/push/send-to-token', {
      ...asAdmin,
      json: { token_id: iphone.id, title: 'a', body: 'b' },
    })
    assert.equal(told(again), '404 device token not found')
  }
  // Registering again revives it.
  const json = { app_id: app, provider: 'fcm', platform: 'android', token: android.token }
  const revived = await api.call('POST /api/push/devices', { as: bob.token, json })
  assert.deepEqual([revived.body.id, revived.body.is_active, revived.body.user_id], [android.id, true, bob.user.id])
})

test('busy services are tried again, later than they ask, and sent once', async () => {
  for (const [provider, service] of [
    ['fcm', fcm],
    ['apns', apns],
  ] as const) {
    const { id, token } = await register(provider)
    for (const behaviour of [
      { status: 429, headers: { 'retry-after': '120' } },
      { status: 503, headers: { 'retry-after': '90' } },
      'break',
    ] as const) {
      service.answer = () => behaviour
      const sent = await sendTo(id)
      const failed = await become(sent.id, 'failed')
      assert.ok(failed.error_code && failed.error_message)
      const waiting = await eventually(async () => {
        const found = await job(sent.job_id)
        assert.equal(found.state, 'queued')
        return found
      })
      const wait = (Date.parse(waiting.runAt) - Date.parse(waiting.lastRunAt)) / 1000
      const asked = behaviour === 'break' ? 5 : Number(behaviour.headers['retry-after'])
      assert.ok(wait >= asked - 1, `${wait}`)
      service.answer = () => ({ status: 200, body: { name: 'ok' } })
      await hurry(sent.job_id)
      const done = await become(sent.id, 'sent')
      assert.equal(done.error_code, null)
      // A job that runs again for a delivery that was sent sends nothing.
      const before = service.heard.filter((one) => one.token === token).length
      const json = { type: 'push_delivery', payload: { delivery_id: sent.id } }
      const again = (await api.call('POST /api/admin/jobs', { ...asAdmin, json })).body.id
      await eventually(async () => assert.equal((await job(again)).state, 'completed'))
      assert.equal(service.heard.filter((one) => one.token === token).length, before)
    }
  }
})

test('a user has at most a hundred active devices in an app: the one refreshed longest ago goes', async () => {
  const many = await api.signUp('many@x.test')
  await api.sql(
    `insert into svc.push_devices (app_id, user_id, provider, platform, token, last_refreshed_at)
    select $1, $2, 'fcm', 'android', 'many ' || i, now() - make_interval(mins => i) from generate_series(1, 100) i`,
    [app, many.user.id],
  )
  const newest = await register('fcm', many)
  const active = await api.sql(`select token from svc.push_devices where user_id = $1 and is_active`, [many.user.id])
  const tokens = active.map(({ token }) => token)
  assert.equal(tokens.length, 100)
  assert.ok(tokens.includes(newest.token) && !tokens.includes('many 100'))
})

test('a message for one user is not shown to the next one of the device', async () => {
  const { id, token } = await register('fcm')
  fcm.answer = () => ({ status: 503, headers: { 'retry-after': '90' } })
  const sent = await sendTo(id)
  await become(sent.id, 'failed')
  await eventually(async () => assert.equal((await job(sent.job_id)).state, 'queued'))
  const json = { app_id: app, provider: 'fcm', platform: 'android', token }
  assert.equal((await api.call('POST /api/push/devices', { as: bob.token, json })).body.id, id)
  fcm.answer = () => ({ status: 200, body: { name: 'ok' } })
  const before = fcm.heard.filter((one) => one.token === token).length
  await hurry(sent.job_id)
  assert.equal((await become(sent.id, 'invalid_token')).error_code, 'inactive')
  assert.equal(fcm.heard.filter((one) => one.token === token).length, before)
  assert.equal(await isActive(id), true)
  await become((await sendTo(id)).id, 'sent')
})

test('after three attempts a delivery stays failed; what is refused for good is not repeated', async () => {
  const { id } = await register('apns')
  apns.answer = () => ({ status: 500, body: { reason: 'InternalServerError' } })
  const sent = await sendTo(id)
  for (let attempt = 1; attempt <= 3; attempt++) {
    await eventually(async () => {
      const { attempts, state } = await job(sent.job_id)
      assert.deepEqual([attempts, state], [attempt, attempt === 3 ? 'failed' : 'queued'])
    })
    await hurry(sent.job_id)
  }
  assert.equal((await delivery(sent.id)).error_code, 'InternalServerError')
  assert.equal(await isActive(id), true)

  const android = await register('fcm')
  for (const code of ['INVALID_ARGUMENT', 'SENDER_ID_MISMATCH', 'THIRD_PARTY_AUTH_ERROR']) {
    fcm.answer = ({ token }) => ({
      status: 400,
      body: { error: { status: code, message: `no ${token}`, details: [{ errorCode: code }] } },
    })
    const refused = await sendTo(android.id)
    const failed = await become(refused.id, 'failed')
    assert.equal(failed.error_code, code)
    assert.equal(failed.error_message, 'no …', 'the token is not repeated')
    await eventually(async () => {
      const { attempts, state } = await job(refused.job_id)
      assert.deepEqual([attempts, state], [1, 'failed'])
    })
  }
  fcm.answer = () => ({ status: 200, body: { name: 'ok' } })
  apns.answer = () => ({ status: 200 })
})

test('a provider token that Apple refuses is signed anew within the attempt', async () => {
  const { id } = await register('apns')
  let refusals = 0
  apns.answer = () => (refusals++ === 0 ? { status: 403, body: { reason: 'ExpiredProviderToken' } } : { status: 200 })
  const sent = await sendTo(id)
  await become(sent.id, 'sent')
  assert.equal((await job(sent.job_id)).attempts, 1)
  assert.equal(refusals, 2)
})

test('a device that became inactive before the message left gets nothing', async () => {
  const { id, token } = await register('fcm')
  await api.sql(`update svc.push_devices set is_active = false where id = $1`, [id])
  const [row] = await api.sql(
    `insert into svc.push_deliveries (device_token_id, app_id, user_id, provider, title, body)
     values ($1, $2, $3, 'fcm', 't', 'b') returning id`,
    [id, app, ann.user.id],
  )
  await api.call('POST /api/admin/jobs', {
    ...asAdmin,
    json: { type: 'push_delivery', payload: { delivery_id: row.id } },
  })
  await become(row.id, 'invalid_token')
  assert.equal(fcm.heard.filter((one) => one.token === token).length, 0)
})

test('devices are their users’ own', async () => {
  const { id } = await register('apns', ann)
  assert.equal(told(await api.call(`DELETE /api/push/devices/${id}`, { as: bob.token })), '404 device token not found')
  const own = await api.call(`GET /api/push/devices?app_id=${app}`, { as: bob.token })
  assert.ok(own.body.items.every((item: { user_id: string }) => item.user_id === bob.user.id))
  assert.equal(told(await api.call('GET /api/push/devices', { as: bob.token })), '400 app_id is required')
  assert.equal(told(await api.call('GET /api/push/devices?app_id=x', { as: bob.token })), '400 invalid app_id format')
  assert.equal((await api.call(`DELETE /api/push/devices/${id}`, { as: ann.token })).status, 204)
  assert.equal((await api.call(`DELETE /api/push/devices/${id}`, { as: ann.token })).status, 404)
  const listed = async (query: string) =>
    (await api.call(`GET /api/admin/push/devices?user_id=${ann.user.id}&${query}`, asAdmin)).body.items.some(
      (item: { id: string }) => item.id === id,
    )
  assert.equal(await listed(''), false)
  assert.equal(await listed('include_inactive=true'), true)
  assert.equal((await api.call('POST /api/push/devices', { json: {} })).status, 401)
})

test('bad input is refused in the words of the contract', async () => {
  const good = { app_id: app, user_id: ann.user.id, provider: 'fcm', platform: 'ios', token: 't' }
  const device = async (json: object) =>
    told(await api.call('POST /api/admin/push/devices', { ...asAdmin, json: { ...good, ...json } }))
  assert.equal(await device({ app_id: '' }), '400 app_id is required')
  assert.equal(await device({ user_id: null }), '400 user_id is required')
  assert.equal(await device({ token: '' }), '400 token is required')
  assert.equal(await device({ provider: 'sms' }), '400 provider must be fcm or apns')
  assert.equal(await device({ provider: null }), '400 provider must be fcm or apns')
  assert.equal(await device({ platform: 'web' }), '400 platform must be android or ios')
  assert.equal(await device({ app_id: 'x' }), '400 invalid app_id format')
  assert.equal(await device({ app_id: NOBODY }), '400 app not found')
  assert.equal(await device({ user_id: NOBODY }), '400 user not found')

  const message = { app_id: app, user_id: ann.user.id, title: 'a', body: 'b' }
  const send = async (json: object) =>
    told(await api.call('POST /api/admin/push/send', { ...asAdmin, json: { ...message, ...json } }))
  assert.equal(await send({ title: '' }), '400 title is required')
  assert.equal(await send({ body: null }), '400 body is required')
  assert.equal(await send({ data: { n: 1 } }), '400 data values must be strings')
  assert.equal(await send({ data: { aps: 'x' } }), '400 data must not contain the key aps')
  assert.equal(await send({ body: 'é'.repeat(2_040) }), '400 payload exceeds 4096 bytes')
  assert.equal(await send({ app_id: NOBODY }), '400 app not found')
  assert.equal(await send({ user_id: NOBODY }), '400 user not found')
  const nobody = await api.signUp('nobody@x.test')
  const none = await api.call('POST /api/admin/push/send', {
    ...asAdmin,
    json: { ...message, user_id: nobody.user.id },
  })
  assert.deepEqual(none.body, { deliveries: [] })
  const toToken = async (json: object) =>
    told(await api.call('POST /api/admin/push/send-to-token', { ...asAdmin, json: { title: 'a', body: 'b', ...json } }))
  assert.equal(await toToken({}), '400 token_id is required')
  assert.equal(await toToken({ token_id: 'x' }), '400 invalid token_id format')
  assert.equal(await toToken({ token_id: NOBODY }), '404 device token not found')
  assert.equal(told(await api.call('GET /api/admin/push/deliveries?status=lost', asAdmin)), '400 invalid status filter')
  const sent = await api.call(`GET /api/admin/push/deliveries?status=SENT&app_id=${app}&limit=2`, asAdmin)
  assert.equal(sent.body.items.length, 2)
  assert.equal(told(await api.call(`GET /api/admin/push/deliveries/${NOBODY}`, asAdmin)), '404 delivery not found')
})

test('devices that no app has shown for 270 days are sent to no more', async () => {
  const [old, fresh] = [await register('fcm'), await register('fcm')]
  await api.sql(`update svc.push_devices set last_refreshed_at = now() - interval '271 days' where id = $1`, [old.id])
  const { id } = (await api.call('POST /api/admin/jobs', { ...asAdmin, json: { type: 'push_token_cleanup' } })).body
  await eventually(async () => assert.equal((await job(id)).state, 'completed'))
  assert.deepEqual([await isActive(old.id), await isActive(fresh.id)], [false, true])
})

test('deliveries are kept as long as jobs are, and what may still be sent stays', async () => {
  fcm.answer = () => ({ status: 200, body: { name: 'ok' } })
  const { id } = await register('fcm')
  const [old, fresh] = [await sendTo(id), await sendTo(id)]
  for (const sent of [old, fresh]) await become(sent.id, 'sent')
  fcm.answer = () => ({ status: 503, headers: { 'retry-after': '3600' } })
  const [waiting, canceled] = [await sendTo(id), await sendTo(id)]
  for (const failed of [waiting, canceled]) await become(failed.id, 'failed')
  await eventually(async () =>
    assert.equal((await api.call(`POST /api/admin/jobs/${canceled.job_id}/cancel`, asAdmin)).status, 200),
  )
  const aged = [old.id, waiting.id, canceled.id]
  await api.sql(`update svc.push_deliveries set updated_at = now() - interval '8 days' where id = any($1)`, [aged])
  const other = await startServer({ on: api, config })
  const status = async (one: string) => (await api.call(`GET /api/admin/push/deliveries/${one}`, asAdmin)).status
  // The first sweep is a while after the start.
  const areGone = async () => assert.deepEqual([await status(old.id), await status(canceled.id)], [404, 404])
  await eventually(areGone)
  await other.stop()
  assert.deepEqual([await status(fresh.id), await status(waiting.id)], [200, 200])
})

test('no secret is written to the log', () => {
  const log = JSON.stringify(api.observations)
  for (const secret of [
    fcm.privatePem.slice(60, 100),
    apns.privatePem.slice(60, 100),
    'access-1',
    'access-2',
    ...apns.tokens,
  ]) {
    assert.ok(!log.includes(secret))
  }
})

test('without credentials a service writes to the log; switched off, everything is 503', async () => {
  const logged = await startServer({ on: api, config: { 'push.enabled': true, 'jobs.worker_concurrency': 4 } })
  await api.stop()
  const { body } = await logged.call('POST /api/admin/push/devices', {
    ...asAdmin,
    json: { app_id: app, user_id: ann.user.id, provider: 'apns', platform: 'ios', token: 'logged' },
  })
  const json = { token_id: body.id, title: 'Written down', body: 'b' }
  const sent = (await logged.call('POST /api/admin/push/send-to-token', { ...asAdmin, json })).body
  await eventually(() =>
    assert.ok(
      logged.observations.some(
        ({ message, attrs }) =>
          message === 'push notification' && attrs?.['delivery'] === sent.id && attrs?.['title'] === 'Written down',
      ),
    ),
  )
  const off = await startServer({ on: api })
  for (const line of [
    'GET /api/admin/push/devices',
    'POST /api/admin/push/send',
    'GET /api/admin/push/deliveries',
    'GET /api/admin/push/deliveries/no-id',
    'DELETE /api/admin/push/devices/no-id',
  ] as const) {
    assert.equal(told(await off.call(line, asAdmin)), '503 push notifications are not enabled')
  }
  assert.equal(
    told(await off.call('GET /api/push/devices', { as: ann.token })),
    '503 push notifications are not enabled',
  )
})

test('a start with files that cannot be used ends with one sentence', async () => {
  const refused = (more: object, sentence: RegExp) =>
    assert.rejects(startServer({ config: { ...config, ...more } }), ({ message }: Error) => sentence.test(message))
  await refused({ 'jobs.enabled': false }, /^invalid value for push\.enabled: needs jobs\.enabled$/)
  await refused({ 'push.apns.team_id': '' }, /^invalid value for push\.apns\.team_id: required/)
  await refused(
    { 'push.apns.key_file': '/nowhere.p8' },
    /^invalid value for push\.apns\.key_file: cannot read \/nowhere\.p8: ENOENT$/,
  )
  await refused(
    { 'push.apns.key_file': fcm.credentialsFile },
    /^invalid value for push\.apns\.key_file: the file has no private key/,
  )
  const bad = `${fcm.credentialsFile}.bad`
  for (const [text, sentence] of [
    ['{', /the file is not JSON$/],
    ['{}', /the file has no token_uri$/],
    ['{"token_uri": "ftp://x"}', /token_uri is not an http or https URL$/],
    [
      '{"token_uri": "https://x", "project_id": "p", "client_email": "e", "private_key": "k"}',
      /no private key that can be read$/,
    ],
    [
      JSON.stringify({ token_uri: 'https://x', project_id: 'p', client_email: 'e', private_key: apns.privatePem }),
      /expected a private key of type RSA$/,
    ],
  ] as const) {
    writeFileSync(bad, text)
    await refused({ 'push.fcm.credentials_file': bad }, sentence)
  }
})
