import { type Options, where } from '../../src/main.ts'
import { type Cases, clientAt, equal, failure, newAccount, refusal } from './kit.ts'

export const rows: Cases = {
  async 'rows are created, read, changed and deleted'(place) {
    const notes = clientAt(place).from('notes')
    const made = await notes.create({ title: 'a', tags: ['x', null], data: { deep: [1, null] } })
    equal([made.title, made.done, made.tags, made.data], ['a', false, ['x', null], { deep: [1, null] }])
    equal(await notes.get(made.id), made)
    equal(await notes.get(made.id, { fields: ['title'] }), { title: 'a' })
    equal((await notes.update(made.id, { done: true })).done, true)
    await notes.delete(made.id)
    equal(await notes.find(made.id), null)
    const gone = await refusal(notes.get(made.id))
    equal(
      [gone.status, gone.error, gone.method, gone.path],
      [404, 'record_not_found', 'GET', `/api/collections/notes/${made.id}`],
    )
    if (!gone.requestId) throw new Error('a refusal has the id of its request')
  },

  async 'composite keys are arrays, with any text in them'(place) {
    const marks = clientAt(place).from('marks')
    const key: [number, string] = [1, `a,b/ü%2C ${Math.random()}`]
    await marks.create({ a: key[0], b: key[1] })
    equal((await marks.update(key, { note: 'n' })).note, 'n')
    equal(await marks.batch([marks.op.update(key, { note: 'm' }), marks.op.delete(key)]), [
      { a: 1, b: key[1], note: 'm' },
      null,
    ])
    equal(await marks.find(key), null)
  },

  async 'a key that no address can hold is refused before anything is sent, and is no other row'(place) {
    let sent = 0
    const counting: NonNullable<Options['fetch']> = (url, init) => {
      sent++
      return fetch(url, init)
    }
    const folders = clientAt(place, { fetch: counting }).from('folders')
    const odd = ['', '.', '..']
    await folders.batch(odd.map((path) => folders.op.upsert({ path }, { onConflict: ['path'] })))
    equal(sent, 1)
    for (const path of odd)
      for (const work of [
        folders.get(path),
        folders.find(path),
        folders.update(path, { note: 'n' }),
        folders.delete(path),
        folders.history(path),
      ]) {
        const error = await failure(work)
        if (!(error instanceof TypeError)) throw error
        equal(/no address/.test(error.message), true)
      }
    equal(sent, 1)
    for (const path of odd) equal((await folders.first({ filter: { path } }))?.path, path)
    for (const path of ['...', '.a', '%2e', 'a/../b', './', ' ', 'a,b']) {
      await folders.upsert({ path }, { onConflict: ['path'] })
      equal((await folders.update(path, { note: path })).note, path)
      equal((await folders.get(path)).note, path)
    }
    const [one, two] = await folders.batch([
      folders.op.update('.', { note: '1' }),
      folders.op.update('..', { note: '2' }),
    ])
    equal([one.note, two.note], ['1', '2'])
  },

  async 'columns may have the names that every object has'(place) {
    const [teams, cars] = [clientAt(place).from('teams'), clientAt(place).from('cars')]
    const id = Math.floor(Math.random() * 2 ** 30)
    await teams.create({ id, constructor: 'Ferrari' })
    await cars.create({ id, team_id: id, toString: 'a car' })
    equal(await cars.count({ filter: { id, team: { constructor: 'Ferrari' } } }), 1)
    equal(await cars.count({ filter: { id, team: { constructor: { ne: 'Ferrari' } } } }), 0)
    equal(await teams.count({ filter: { id, cars: { toString: 'a car' } } }), 1)
    equal((await teams.update(id, { constructor: null })).constructor, null)
  },

  async 'no digit is lost, in either direction'(place) {
    const big = 9007199254740993n
    const notes = clientAt(place).from('notes')
    const made = await notes.create({
      title: 'n',
      views: big,
      price: '12345678901234567890.123456789',
      data: { id: big, small: 5 },
    })
    equal([made.views, made.price, made.data], [big, '12345678901234567890.123456789', { id: big, small: 5 }])
    equal(await notes.get(made.id), made)
    equal((await notes.create({ title: 'n', views: 7, price: 12.5 })).price, 12.5)
    const whole = await notes.create({ title: 'n', price: 12345678901234567890n })
    equal(whole.price, 12345678901234567890n)
    equal(await notes.count({ filter: { id: whole.id, price: { gt: 12345678901234567889n } } }), 1)
    equal(await notes.aggregate({ filter: { id: whole.id }, avg: ['price'] }), [{ avg_price: 12345678901234567890n }])
    equal((await notes.first({ filter: where`id = ${made.id} AND views = ${big}` }))?.views, big)
    const asText = clientAt(place, { numbers: 'text' }).from('notes')
    equal((await asText.get(made.id)).views as unknown, String(big))
    equal(await clientAt(place).rpc('add', { a: big }), big + 1n)
    equal(await clientAt(place).rpc('add', { a: 1, b: 2 }), 3)
    await notes.delete(made.id)
  },

  async 'filters quote every value, nest and read as objects'(place) {
    const svc = clientAt(place)
    const { user } = await svc.auth.register(newAccount())
    const lists = svc.from('lists')
    const list = await lists.create({ name: `it's \\ "mine" ${Math.random()}` })
    const notes = svc.from('notes')
    const ids = []
    for (const title of [`O'Hara`, 'back\\slash', '%'])
      ids.push((await notes.create({ title, list_id: list.id, views: ids.length })).id)
    const titles = async (filter: Parameters<typeof notes.list>[0]) =>
      (await notes.list({ ...filter, sort: 'views' })).items.map(({ title }) => title)
    const mine = where`list_id = ${list.id}`
    equal(await titles({ filter: where`${mine} AND title = ${`O'Hara`}` }), [`O'Hara`])
    equal(await titles({ filter: where`${mine} AND (title = ${'back\\slash'} OR title ~ ${'O%'})` }), [
      `O'Hara`,
      'back\\slash',
    ])
    equal(await titles({ filter: where`id IN ${ids.slice(1)}` }), ['back\\slash', '%'])
    equal(await titles({ filter: where`id IN ${[]}` }), [])
    equal(await titles({ filter: where`list.name = ${list.name} AND slug = ${null}` }), [`O'Hara`, 'back\\slash', '%'])
    equal(
      await titles({
        filter: { list_id: list.id, views: { gte: 1 }, or: [{ title: '%' }, { title: { like: 'O%' } }] },
      }),
      ['%'],
    )
    equal(
      await titles({
        filter: { id: ids.slice(0, 2), list: { owner: user.id }, at: { lt: new Date(Date.now() + 3_600_000 * 24) } },
      }),
      [`O'Hara`, 'back\\slash'],
    )
    equal(await titles({ filter: { and: [mine, { or: [where`views = ${0}`, where`views = ${2}`] }] } }), [
      `O'Hara`,
      '%',
    ])
    for (const wrong of [undefined, Number.NaN, {}, () => 1]) {
      const thrown = await failure(Promise.resolve().then(() => where`a = ${wrong as never}`))
      if (!(thrown instanceof TypeError)) throw thrown
    }
  },

  async 'lists: pages, cursors, expand, totals, the first and the number of rows'(place) {
    const svc = clientAt(place)
    await svc.auth.register(newAccount())
    const list = await svc.from('lists').create({ name: 'l' })
    const notes = svc.from('notes')
    await notes.batch(
      Array.from({ length: 25 }, (_, i) =>
        notes.op.create({ title: `t${i}`, list_id: list.id, views: i, done: i % 2 === 0 }),
      ),
    )
    const filter = { list_id: list.id }
    const page = await notes.list({ filter, sort: ['-views'], perPage: 10, page: 3, fields: ['views'] })
    equal(page, {
      items: [4, 3, 2, 1, 0].map((views) => ({ views })),
      page: 3,
      perPage: 10,
      totalItems: 25,
      totalPages: 3,
    })
    const [one] = (await notes.list({ filter, expand: ['list.notes'], perPage: 1, total: 'none' })).items
    equal([one?.expand.list?.name, one?.expand.list?.expand.notes.length], ['l', 25])
    const all = []
    for await (const { views } of notes.each({ filter, sort: 'views', perPage: 7, fields: ['views'] })) all.push(views)
    equal(
      all,
      Array.from({ length: 25 }, (_, i) => i),
    )
    equal(await notes.count({ filter: { ...filter, done: true } }), 13)
    equal(await notes.aggregate({ filter, group: ['done'], count: true, sum: ['views'], sort: 'done' }), [
      { done: false, count: 12, sum_views: 144 },
      { done: true, count: 13, sum_views: 156 },
    ])
    equal((await notes.first({ filter, sort: '-views' }))?.title, 't24')
    equal(await notes.first({ filter: where`list_id = ${-1}` }), null)
    const found = await notes.search('t7', { filter, facets: ['done'], highlight: true })
    equal(
      [found.items.length, found.facets?.done, found.items[0]?._highlight?.trim()],
      [1, [{ value: false, count: 1 }], '<b>t7</b>'],
    )
    await notes.update(one?.id ?? 0, { vector: [1, 0, 0] })
    const near = await notes.near({ filter, column: 'vector', vector: [1, 0, 0], distance: 'l2', perPage: 5 })
    equal(
      near.items.map(({ id, _distance }) => [id, _distance]),
      [[one?.id, 0]],
    )
    const views = await svc.from('titles').list({ perPage: 1 })
    equal(views.items.length, 1)
  },

  async 'upserts, batches, imports and exports'(place) {
    const notes = clientAt(place).from('notes')
    const slug = `s${Math.random()}`
    const first = await notes.upsert({ slug, title: 'one' }, { onConflict: ['slug'] })
    equal((await notes.upsert({ slug, title: 'two' }, { onConflict: 'slug' })).id, first.id)
    equal((await notes.upsert({ slug, title: 'three' }, { onConflict: ['slug'], merge: 'ignore' })).title, 'two')
    const refused = await refusal(
      notes.batch([notes.op.update(first.id, { done: true }), notes.op.create({ slug, title: 'again' })]),
    )
    equal(
      [refused.status, refused.is('unique_violation', 'slug'), refused.is('unique_violation', 'title')],
      [409, true, false],
    )
    equal(refused.is('unique_violation', 'notes_slug_key'), true)
    equal((await notes.get(first.id)).done, false)
    equal((await refusal(notes.create({ title: 'bad' }))).is('check_violation', 'notes_title_check'), true)

    const csv = `slug,title\n${slug},"a, b"\n${slug}-2,c\n`
    const sent: number[] = []
    const onProgress = (bytes: number) => void sent.push(bytes)
    equal(await notes.import(csv, { onConflict: ['slug'], dryRun: true, onProgress }), {
      created: 1,
      updated: 1,
      skipped: 0,
      dry_run: true,
    })
    equal(sent.at(-1), csv.length)
    equal((await notes.import([{ slug: `${slug}-3`, title: 'd' }])).created, 1)
    equal((await notes.import(new Blob([`{"slug":"${slug}-4","title":"e"}\n`]), { format: 'ndjson' })).created, 1)
    const failed = await refusal(notes.import('slug,title\nx\n'))
    equal([failed.status, failed.error], [422, 'import_failed'])
    const stream = await notes.export({
      format: 'csv',
      filter: { slug: { like: `${slug}%` } },
      fields: ['title'],
      sort: 'title',
    })
    equal(await new Response(stream).text(), 'title\r\nd\r\ne\r\ntwo\r\n')
  },

  async 'functions and GraphQL'(place) {
    const svc = clientAt(place)
    equal(await svc.rpc('nothing'), undefined)
    const title = `wild ${Math.random()}`
    await svc.from('notes').create({ title, mood: 'wild' })
    equal(
      (await svc.rpc('wild')).some((note) => note.title === title),
      true,
    )
    const missing = await refusal(svc.rpc('add', {} as never))
    equal([missing.status, missing.error], [400, 'invalid_arguments'])
    const data = await svc.graphql('query($t: String) { notes(where: {title: {_eq: $t}}) { title mood } }', {
      t: title,
    })
    equal(data, { notes: [{ title, mood: 'wild' }] })
    const wrong = await refusal(svc.graphql('{ notes { nope } }'))
    equal([wrong.status, wrong.error], [400, 'invalid_document'])
    equal(((await svc.request('GET', '/health')) as { status: string }).status, 'ok')
  },

  async 'a dry run says what a write would do, and does nothing'(place) {
    const svc = clientAt(place)
    await svc.auth.register(newAccount())
    const mine = svc.from('mine')
    const { id } = await mine.create({ text: 'a' })
    const tried = await mine.update(id, { text: 'b' }, { dryRun: true })
    equal([tried.status, tried.answer.text], [200, 'b'])
    equal(tried.changes, [{ key: id, table: 'mine', action: 'update', changes: { text: { new: 'b', old: 'a' } } }])
    equal((await mine.delete(id, { dryRun: true })).status, 204)
    equal((await mine.batch([mine.op.delete(id)], { dryRun: true })).answer[0]?.status, 204)
    equal((await mine.get(id)).text, 'a')
    equal((await refusal(svc.from('notes').create({ title: 'bad' }, { dryRun: true }))).error, 'check_violation')
  },

  async 'the history of a row, newest first'(place) {
    const svc = clientAt(place)
    await svc.auth.register(newAccount())
    const mine = svc.from('mine')
    const { id } = await mine.create({ text: 'a' })
    await mine.update(id, { text: 'b' })
    const { items, nextCursor } = await mine.history(id, { perPage: 1 })
    equal(
      items.map(({ action, changes }) => [action, changes]),
      [['update', { text: { new: 'b', old: 'a' } }]],
    )
    const before = await mine.history(id, { perPage: 1, cursor: nextCursor ?? '' })
    equal(
      before.items.map(({ action }) => action),
      ['create'],
    )
    equal((await refusal(svc.from('notes').history(1))).message, 'history is not open')
  },
}
