import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addPasskey, Passkey, passkeyConfig, signInWithBoth, signUpWithPasskey } from '../../../test/fakes/passkey.ts'
import { startServer } from '../../../test/kit/kit.ts'
import { overhearStatements } from '../../../test/kit/statements.ts'
import { Decoy } from './webauthn/decoy.ts'

// A request for the passkey of an address reveals nothing about the address.

// The key of decoys comes from this secret, so that what is drawn here is drawn again the next time.
const config = { ...passkeyConfig, 'auth.jwt_secret': 'ab'.repeat(32) }
const api = await startServer({ config })

const begin = async (email: string, server = api) => {
  const { status, text, body } = await server.call('POST /api/auth/webauthn/login/begin', { json: { email } })
  assert.equal(status, 200)
  return { size: text.length, shape: shapeOf(body), offered: body.options.allowCredentials, body }
}

/** Every field there is, without what it says. */
const shapeOf = (value: unknown): unknown =>
  typeof value !== 'object' || value === null
    ? typeof value
    : Array.isArray(value)
      ? value.map(shapeOf)
      : Object.entries(value).map(([key, inner]) => [key, shapeOf(inner)])

const strangers = Array.from({ length: 150 }, (_, i) => `stranger${i}@x.test`)
const offers = () => Promise.all(strangers.map(async (email) => (await begin(email)).offered))

/** The server's own round, some time after its start. */
const isSweep = (text: string): boolean => text.includes('as is_mine')

/** Sizes of ids as phones, password managers, desks and security keys make them. */
const SIZES = [16, 20, 32, 48, 64]

test('before anybody has a passkey, everybody gets a decoy', async () => {
  await api.signUp('nobody-yet@x.test')
  const [a, b] = [await begin('nobody-yet@x.test'), await begin('stranger@x.test')]
  assert.deepEqual([a.shape, a.size], [b.shape, b.size])
})

test('decoys have the sizes of the passkeys that there are, and nothing else tells them apart', async () => {
  const real = new Map<number, { size: number; shape: unknown }>()
  for (const idBytes of SIZES) {
    await signUpWithPasskey(api, `has${idBytes}@x.test`, new Passkey({ idBytes }))
    real.set(idBytes, await begin(`has${idBytes}@x.test`))
  }
  const counts = new Map<number, number>()
  for (const email of strangers) {
    const { size, shape, offered } = await begin(email)
    assert.equal(offered.length, 1)
    const bytes = Buffer.from(offered[0].id, 'base64url').length
    const twin = real.get(bytes)
    assert.deepEqual([size, shape], [twin?.size, twin?.shape], `an id of ${bytes} bytes`)
    counts.set(bytes, (counts.get(bytes) ?? 0) + 1)
  }
  for (const idBytes of SIZES) assert.ok((counts.get(idBytes) ?? 0) >= 15, `${counts.get(idBytes)} of ${idBytes} bytes`)
})

test('an address keeps its decoy, in any case of letters, on every server, and when it gets an account', async () => {
  const second = await startServer({ on: api, config })
  const { offered } = await begin('stays@x.test')
  assert.deepEqual((await begin(' STAYS@x.Test ')).offered, offered)
  assert.deepEqual((await begin('stays@x.test', second)).offered, offered)
  await api.signUp('stays@x.test')
  assert.deepEqual((await begin('stays@x.test')).offered, offered)
  assert.notDeepEqual((await begin('stays2@x.test')).offered, offered)
  await second.stop()
})

test('a passkey more changes few decoys, and the second one of an account none', async () => {
  const before = await offers()
  const passkey = new Passkey({ idBytes: 24 })
  await signUpWithPasskey(api, 'sixth@x.test', passkey)
  const after = await offers()
  const changed = after.filter((offered, i) => offered[0].id !== before[i][0].id)
  assert.ok(changed.length > 0 && changed.length < strangers.length / 3, `${changed.length} changed`)
  for (const [{ id }] of changed) assert.equal(Buffer.from(id, 'base64url').length, 24)

  const { token } = await signInWithBoth(api, 'sixth@x.test', passkey)
  for (let i = 0; i < 5; i++) await addPasskey(api, token, new Passkey({ idBytes: 777 }))
  assert.deepEqual(await offers(), after)
})

test('of any number of passkeys each is drawn as often as any other', () => {
  const key = Buffer.alloc(32, 7)
  for (const n of [1, 2, 10, 1000]) {
    const drawn = Array.from({ length: 4000 }, (_, i) => {
      const { models } = new Decoy(key, `${i}@x.test`)
      return models.findLast((number) => number <= n) ?? 0
    })
    const tenth = Math.max(1, n / 10)
    for (let from = 0; from < n; from += tenth) {
      const share = drawn.filter((number) => number > from && number <= from + tenth).length / drawn.length
      assert.ok(
        Math.abs(share - tenth / n) < 0.02,
        `${share} of the draws are between ${from} and ${from + tenth} of ${n}`,
      )
    }
  }
})

test('known and unknown addresses cost the same statements, to ask and to be refused', async () => {
  const wire = await overhearStatements(api.databaseUrl)
  const server = await startServer({ on: api, config: { ...config, 'database.url': wire.url } })
  const told = async (work: () => Promise<unknown>) =>
    // What the server does by itself meanwhile knows nothing of accounts.
    (await wire.during(work)).filter((text) => /svc\.(users|webauthn|sessions|mfa)/.test(text) && !isSweep(text))
  const costs = []
  for (const email of ['has20@x.test', 'stays@x.test', 'stranger@x.test']) {
    let asked = await begin(email, server)
    const toAsk = await told(async () => (asked = await begin(email, server)))
    const liar = new Passkey()
    const [{ id }] = asked.offered
    const json = {
      challenge_id: asked.body.challenge_id,
      assertion_response: liar.get(asked.body.options, { id, userHandle: null }),
    }
    const refuse = async () => {
      const { body } = await server.call('POST /api/auth/webauthn/login/finish', { json })
      assert.deepEqual(body, { code: 401, error: 'invalid_credentials', message: 'invalid email or passkey' })
    }
    await refuse()
    costs.push({ toAsk, toRefuse: await told(refuse) })
  }
  const [known, without, unknown] = costs
  assert.deepEqual([known?.toAsk.length, known?.toRefuse.length], [1, 1])
  assert.deepEqual(without, known)
  assert.deepEqual(unknown, known)
  await server.stop()
  await wire.close()
})
