import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { packageRoot } from '../../src/core/package-root.ts'
import { bundleWithClient, runWithClient } from '../../test/kit/client-program.ts'
import { startServer } from '../../test/kit/kit.ts'

/** What React Native has not, or has in another form: `crypto`, streams of answers, reasons of an abort, names of classes. */
const NATIVE = `
  for (const name of ['crypto', 'localStorage', 'navigator']) delete globalThis[name]
  Object.defineProperty(AbortSignal.prototype, 'reason', { get: () => undefined })
  const inner = fetch
  globalThis.fetch = async (url, init) => {
    const { ok, status, headers, text } = await inner(url, init).then(async (answer) => ({
      ok: answer.ok, status: answer.status, headers: answer.headers, text: await answer.text() }))
    return { ok, status, headers, text: async () => text }
  }
`

test('rows, accounts and changes work with what React Native has', async () => {
  const api = await startServer()
  await api.sql(`create table notes (id int generated always as identity primary key, title text, größe int);
    grant all on notes to svc_authenticated`)
  const ws = pathToFileURL(join(packageRoot, 'node_modules/ws/wrapper.mjs')).href
  const { stdout } = await runWithClient(`
    ${NATIVE}
    const path = ${JSON.stringify(ws)}
    const { WebSocket } = await import(path)
    const { createClient, where } = await import('savanna-client')
    const svc = createClient(${JSON.stringify(api.url)}, { WebSocket })
    await svc.auth.register({ email: 'ana@x.test', password: 'long enough password' })
    const notes = svc.from('notes')
    const heard = new Promise((resolve) => {
      const stop = notes.watch({
        onChange: ({ record }) => { stop(); resolve(record.title) },
        onStatus: async (status) => status === 'live' && (await notes.create({ title: 'a', größe: 1 })),
      })
    })
    console.log(await heard)
    console.log((await notes.list({ filter: where\`größe IN \${[1, 2]}\` })).items.length)
    const stop = new AbortController()
    const call = notes.list({}, { signal: stop.signal })
    stop.abort()
    console.log(await call.then(() => 'answered', (error) => error instanceof Error))
    await svc.auth.logout()
  `)
  assert.deepEqual(stdout.trim().split('\n'), ['a', '1', 'true'])
})

test('no expression needs more of its engine than there is', async () => {
  const code = await bundleWithClient(`export * from 'savanna-client'`, { minify: true })
  assert.doesNotMatch(code, /\\p\{|\(\?<[=!]/)
})
