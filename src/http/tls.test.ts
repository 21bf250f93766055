import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { WebSocket } from 'ws'
import { eventually, startServer } from '../../test/kit/kit.ts'

const folder = mkdtempSync(join(tmpdir(), 'svc-tls-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]

/** A certificate of its own, for this name. */
const certify = (name: string, cert = certFile, key = keyFile) =>
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '30'],
      ...['-subj', `/CN=${name}`, '-out', cert, '-keyout', key],
    ],
    { stdio: 'ignore' },
  )

/** Over a new connection: the status, the body, and whose certificate it was. */
const get = (url: string, body?: string) =>
  new Promise<{ status: number; text: string; name: string }>((resolve, reject) => {
    const options = { rejectUnauthorized: false, agent: false, method: body === undefined ? 'GET' : 'POST' }
    const asked = request(url, { ...options, headers: { 'content-type': 'application/json' } }, (response) => {
      const name = (response.socket as TLSSocket).getPeerCertificate().subject.CN as string
      let text = ''
      response.on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text, name }))
    })
    asked.on('error', reject)
    asked.end(body)
  })

test('TLS of its own: requests, large answers, sockets, and a certificate that is renewed while it runs', async () => {
  certify('first.test')
  const config = { 'server.tls_cert_file': certFile, 'server.tls_key_file': keyFile }
  const api = await startServer({ config })
  assert.match(api.url, /^https:/)
  await api.sql('create table notes (id int primary key, title text)')
  await api.sql(`insert into notes select i, repeat('x', 4000) from generate_series(1, 400) i`)
  const health = await get(`${api.url}/health`)
  assert.deepEqual([health.status, health.name], [200, 'first.test'])
  const made = await eventually(async () => {
    const answer = await get(`${api.url}/api/collections/notes`, JSON.stringify({ id: 0, title: 'n' }))
    assert.equal(answer.status, 201)
    return answer
  })
  assert.deepEqual(JSON.parse(made.text), { id: 0, title: 'n' })
  const list = await get(`${api.url}/api/collections/notes?perPage=400`)
  assert.equal(JSON.parse(list.text).items.length, 400)

  const socket = new WebSocket(`${api.url.replace('https', 'wss')}/api/realtime/ws`, { rejectUnauthorized: false })
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  socket.close()
  await assert.rejects(fetch(api.url.replace('https', 'http')), 'nothing is served without TLS')

  // Half of a new pair does not fit, and the old one stays.
  certify('second.test', certFile, join(folder, 'later.pem'))
  await eventually(() => assert.ok(api.observations.some(({ message }) => message === 'certificate not read again')))
  assert.equal((await get(`${api.url}/health`)).name, 'first.test')
  certify('third.test')
  await eventually(async () => assert.equal((await get(`${api.url}/health`)).name, 'third.test'))
})

test('a certificate that cannot be used is one sentence at the start', async () => {
  writeFileSync(join(folder, 'bad.pem'), 'no certificate')
  const config = { 'server.tls_cert_file': join(folder, 'bad.pem'), 'server.tls_key_file': keyFile }
  await assert.rejects(startServer({ config }), /^Error: cannot use the certificate .*bad\.pem with the key [^\n]+$/)
  const half = { 'server.tls_cert_file': certFile }
  await assert.rejects(startServer({ config: half }), /server\.tls_key_file: required with server\.tls_cert_file/)
})
