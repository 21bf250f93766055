import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type Behaviour, startApns, startFcm } from '../../../test/fakes/push-services.ts'
import { createOutgoing } from '../../http/out/outgoing.ts'
import { Apns } from './apns.ts'
import { apnsCredentials, fcmCredentials } from './credentials.ts'
import { Fcm } from './fcm.ts'

const [google, apple] = [await startFcm(), await startApns()]
const outgoing = createOutgoing({ allowPrivateNetworks: true })
const message = { id: '6f8b2f3e-0000-4000-8000-000000000001', token: 'abc', title: 'a', body: 'b', data: {} }
const credentials = {
  fcm: fcmCredentials(google.credentialsFile),
  apns: apnsCredentials({ key_file: apple.keyFile, team_id: 'TEAM123456', key_id: 'KEY1234567', bundle_id: 'x' }),
}
assert.ok(credentials.fcm && credentials.apns)
const fcm = new Fcm({ credentials: credentials.fcm, outgoing, endpoint: google.url, timeoutMs: 5_000 })
const apns = new Apns({ credentials: credentials.apns, endpoint: apple.url, timeoutMs: 5_000 })
after(async () => {
  apns.stop()
  google.close()
  apple.close()
  await outgoing.stop()
})

test('a service that says nothing is given up in time, and asked on a new connection next', async () => {
  for (const [provider, service] of [
    [fcm, google],
    [apns, apple],
  ] as const) {
    service.answer = () => 'stall'
    assert.deepEqual(await provider.send(message), { kind: 'failed', code: 'timeout', message: 'request timed out' })
    service.answer = () => ({ status: 200, body: { name: 'm' } })
    assert.equal((await provider.send(message)).kind, 'sent')
  }
  assert.equal(apple.connections, 2)
})

test('a broken connection is an outcome, and the next message gets another', async () => {
  for (const [provider, service] of [
    [fcm, google],
    [apns, apple],
  ] as const) {
    service.answer = () => 'break'
    assert.equal((await provider.send(message)).kind, 'failed')
    service.answer = () => ({ status: 200, body: { name: 'm' } })
    assert.equal((await provider.send(message)).kind, 'sent')
  }
})

test('a service that is not there is an outcome', async () => {
  assert.ok(credentials.apns)
  const nobody = new Apns({ credentials: credentials.apns, endpoint: 'http://127.0.0.1:1', timeoutMs: 5_000 })
  assert.equal((await nobody.send(message)).kind, 'failed')
})

test('many messages at once buy one access token', async () => {
  assert.ok(credentials.fcm)
  const patient = new Fcm({ credentials: credentials.fcm, outgoing, endpoint: google.url, timeoutMs: 20_000 })
  await patient.send(message)
  google.accessToken = 'another'
  const before = google.tokensSold
  const outcomes = await Promise.all(Array.from({ length: 20 }, () => patient.send(message)))
  assert.ok(outcomes.every(({ kind }) => kind === 'sent'))
  assert.ok(google.tokensSold - before === 1, `${google.tokensSold - before}`)
})

test('a token endpoint that stalls, breaks or is busy is an outcome, and is asked again', async () => {
  assert.ok(credentials.fcm)
  const fresh = new Fcm({ credentials: credentials.fcm, outgoing, endpoint: google.url, timeoutMs: 5_000 })
  const before = google.heard.length
  const refusals: [Behaviour, object][] = [
    ['stall', { code: 'timeout', retryAfter: undefined }],
    [
      { status: 429, headers: { 'retry-after': '70' } },
      { code: 'http_429', retryAfter: 70 },
    ],
    [
      { status: 503, body: { error: 'backend' } },
      { code: 'backend', retryAfter: undefined },
    ],
  ]
  for (const [refusal, expected] of refusals) {
    google.refuseToken = refusal
    const outcome = await fresh.send(message)
    assert.ok(outcome.kind === 'failed')
    assert.deepEqual({ code: outcome.code, retryAfter: outcome.retryAfter }, expected)
  }
  google.refuseToken = 'break'
  assert.equal((await fresh.send(message)).kind, 'failed')
  assert.equal(google.heard.length, before, 'nothing is sent without a token')
  google.refuseToken = undefined
  assert.equal((await fresh.send(message)).kind, 'sent')
})
