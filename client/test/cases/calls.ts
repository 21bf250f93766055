import { NetworkError, type Options } from '../../src/main.ts'
import { type Cases, clientAt, equal, failure, losing, newAccount, refusal } from './kit.ts'

export const calls: Cases = {
  async 'a write whose answer is lost happens once'(place) {
    const proxy = losing(2, /collections/)
    const notes = clientAt(place, { fetch: proxy.fetch }).from('notes')
    const title = `once ${Math.random()}`
    const made = await notes.create({ title })
    equal([proxy.lost(), (await notes.list({ filter: { title } })).items], [2, [made]])
    const cut = losing(9, /collections/)
    const once = clientAt(place, { fetch: cut.fetch, retry: 0 }).from('notes')
    const lost = await failure(once.create({ title: `${title} again` }))
    equal([lost instanceof NetworkError, cut.lost()], [true, 1])
  },

  async 'what takes no key is not sent twice'(place) {
    const proxy = losing(9, /graphql|login/)
    const svc = clientAt(place, { fetch: proxy.fetch })
    const mutation = 'mutation { insert_notes(objects: [{title: "m"}]) { affected_rows } }'
    await failure(svc.graphql(mutation))
    await failure(svc.auth.login(newAccount()))
    equal(proxy.lost(), 2)
  },

  async 'a call ends by its signal and in its time'(place) {
    const never: Options['fetch'] = (_, { signal }) =>
      new Promise((_resolve, reject) => {
        if (signal?.aborted) reject(signal.reason)
        signal?.addEventListener('abort', () => reject(signal.reason))
      })
    const notes = clientAt(place, { fetch: never }).from('notes')
    const late = await failure(notes.list({}, { timeout: 50 }))
    equal([late.name, late.message], ['NetworkError', 'GET /api/collections/notes: no answer in time'])
    const stop = new AbortController()
    const work = failure(notes.list({}, { signal: stop.signal }))
    stop.abort(new Error('changed my mind'))
    equal((await work).message, 'changed my mind')
  },

  async 'files: up, down, signed, listed and removed'(place) {
    const svc = clientAt(place)
    await svc.auth.register(newAccount())
    const bucket = svc.storage.bucket('files')
    const name = `deep/ü ${Math.random()}.txt`
    let sent = 0
    const file = await bucket.upload(name, new Blob(['grüße']), {
      onProgress: (bytes) => {
        sent = bytes
      },
    })
    equal([file.name, file.size, file.contentType, sent > 7], [name, 7, 'text/plain; charset=utf-8', true])
    equal(await (await bucket.download(name)).text(), 'grüße')
    equal(await (await fetch(await bucket.signedUrl(name, { expiresIn: 60 }))).text(), 'grüße')
    equal(await (await fetch(bucket.url(name))).text(), 'grüße')
    equal(
      (await bucket.list({ prefix: name })).map(({ id }) => id),
      [file.id],
    )
    const inFolder = await bucket.folder({ prefix: name.slice(0, name.lastIndexOf('/') + 1) })
    equal(
      inFolder.items.some(({ id }) => id === file.id),
      true,
    )
    const copy = await bucket.copy(name, `copies/${name}`)
    const moved = await bucket.move(copy.name, `moved/${name}`)
    equal(moved.id, copy.id)
    equal((await new Response(await bucket.zip(`moved/${name}`)).arrayBuffer()).byteLength > 22, true)
    await bucket.remove(moved.name)
    await bucket.remove(name)
    equal((await refusal(bucket.download(name))).error, 'file_not_found')
  },

  async 'a call that waits for another attempt goes out as who made it, or not at all'(place) {
    let attempts = 0
    const svc = clientAt(place, {
      async fetch(url, init) {
        if (!url.includes('/mine')) return fetch(url, init)
        attempts++
        await svc.auth.logout()
        throw new TypeError('the connection was cut')
      },
    })
    await svc.auth.register(newAccount())
    const lost = await failure(svc.from('mine').create({ text: 'mine' }))
    equal([lost instanceof NetworkError, attempts], [true, 1])
  },

  async 'a server that is busy is asked again when it says, and one that refuses is not'(place) {
    const answers = [503, 503, 502]
    let attempts = 0
    const svc = clientAt(place, {
      fetch(url, init) {
        attempts++
        const status = answers.shift()
        const headers = { 'retry-after': '0', 'content-type': 'application/json' }
        const body = status === 502 ? '<html>' : '{"code":503,"error":"server_busy","message":"server busy"}'
        return status ? Promise.resolve(new Response(body, { status, headers })) : fetch(url, init)
      },
    })
    await svc.from('notes').create({ title: 'in the end' })
    equal(attempts, 4)
    answers.push(503)
    const busy = await refusal(svc.from('notes').list({}, { retry: 0 }))
    equal([busy.status, busy.error, busy.retryAfter, attempts], [503, 'server_busy', 0, 5])
    await refusal(svc.from('notes').create({ title: 'bad' }))
    equal(attempts, 6)
  },

  async 'of writes side by side the latest position is sent back, whichever answer is last'(place) {
    const answers: ((position: string) => void)[] = []
    const sent: (string | undefined)[] = []
    const svc = clientAt(place, {
      async fetch(_, { method, headers }) {
        sent.push((headers as Record<string, string>)['svc-position'])
        const position = method === 'GET' ? '' : await new Promise<string>((resolve) => answers.push(resolve))
        const init = { headers: { 'content-type': 'application/json', ...(position && { 'svc-position': position }) } }
        return new Response('{"id":1,"title":"n","items":[]}', init)
      },
    })
    const notes = svc.from('notes')
    const write = async (...positions: string[]): Promise<void> => {
      const calls = positions.map(() => notes.create({ title: 'n' }))
      while (answers.length < positions.length) await new Promise((resolve) => setTimeout(resolve, 1))
      for (const [i, position] of positions.entries()) {
        answers.shift()?.(position)
        await calls[i]
      }
      await notes.list()
    }
    await write('2-b', '2-a')
    // A write that began after the others is the latest, whatever it says: another database may stand there now.
    await write('1-a')
    equal(sent, [undefined, undefined, '2-b', '2-b', '1-a'])
  },
}
