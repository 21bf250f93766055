import { where } from '../../src/main.ts'
import { type Cases, clientAt, equal, eventually, failure, newAccount, untilEnd } from './kit.ts'

export const events: Cases = {
  async 'changes arrive as they are committed, each with the filter it was asked for'(place) {
    const svc = clientAt(place)
    await svc.auth.register(newAccount())
    const notes = svc.from('notes')
    const title = `live ${Math.random()}`
    const heard: unknown[] = []
    const wild: unknown[] = []
    const states: string[] = []
    untilEnd(
      notes.watch({
        filter: { title },
        onChange: ({ action, record }) => void heard.push([action, record.views]),
        onStatus: (status) => void states.push(status),
      }),
    )
    untilEnd(
      notes.watch({
        filter: where`title = ${title} AND mood = ${'wild'}`,
        onChange: ({ action, record }) => void wild.push([action, record.views]),
        onStatus: (status) => void states.push(status),
      }),
    )
    await eventually(() => equal(states.filter((status) => status === 'live').length, 2))
    const big = 9007199254740993n
    const { id } = await notes.create({ title, views: big })
    await notes.update(id, { views: 1, mood: 'wild' })
    await notes.delete(id)
    await eventually(() => equal([heard.length, wild.length], [3, 2]))
    equal(
      [heard, wild],
      [
        [
          ['create', big],
          ['update', 1],
          ['delete', undefined],
        ],
        [
          ['update', 1],
          ['delete', undefined],
        ],
      ],
    )
  },

  async 'changes as a loop, and a subscription that is refused'(place) {
    const svc = clientAt(place)
    await svc.auth.register(newAccount())
    const notes = svc.from('notes')
    const title = `loop ${Math.random()}`
    const stop = new AbortController()
    untilEnd(() => stop.abort())
    const heard: string[] = []
    const loop = (async () => {
      for await (const { action } of notes.changes({ filter: { title } }, { signal: stop.signal })) {
        heard.push(action)
        if (action === 'update') return
      }
    })()
    // A loop says nothing of when it begins, so it is given something until it hears.
    await eventually(async () => {
      if (heard.length === 0) await notes.create({ title })
      equal(heard.length > 0, true)
    })
    const { id } = await notes.create({ title })
    await notes.update(id, { done: true })
    await loop
    const errors: string[] = []
    untilEnd(svc.from('nope' as 'notes').watch({ onChange() {}, onError: ({ error }) => void errors.push(error) }))
    await eventually(() => equal(errors, ['unknown_table']))
  },

  async 'after sign-out nothing is heard, and the next person hears their own'(place) {
    const svc = clientAt(place)
    const [ana, ben] = [newAccount(), newAccount()]
    await svc.auth.register(ana)
    const mine = svc.from('mine')
    const heard: unknown[] = []
    let resets = 0
    let state = ''
    untilEnd(
      mine.watch({
        onChange: ({ record }) => void heard.push(record.text),
        onReset: () => void resets++,
        onStatus: (status) => {
          state = status
        },
      }),
    )
    await eventually(() => equal(state, 'live'))
    await mine.create({ text: 'a' })
    await eventually(() => equal(heard, ['a']))
    const asAna = svc.as(svc.auth.session?.token ?? '')
    const token = svc.auth.session?.token
    await svc.auth.logout()
    equal([state, token === undefined], ['connecting', false])
    await failure(asAna.from('mine').create({ text: 'b' }))
    await svc.auth.register(ben)
    await eventually(() => equal([state, resets], ['live', 1]))
    await mine.create({ text: 'c' })
    await eventually(() => equal(heard, ['a', 'c']))
  },

  async 'a live list is its rows, in order, whenever they change'(place) {
    const svc = clientAt(place)
    await svc.auth.register(newAccount())
    const notes = svc.from('notes')
    const title = `list ${Math.random()}`
    let rows: readonly { id: number | bigint; views: number | bigint }[] = []
    const stop = notes.live({ filter: { title }, sort: '-views', perPage: 2, fields: ['id', 'views'] }, (now) => {
      rows = now
    })
    untilEnd(stop)
    const big = 9007199254740993n
    const [a, b, c] = await notes.batch([
      notes.op.create({ title, views: 1 }),
      notes.op.create({ title, views: big }),
      notes.op.create({ title, views: 3 }),
    ])
    const seen = (): unknown => rows.map(({ id, views }) => [id, views])
    await eventually(() =>
      equal(seen(), [
        [b.id, big],
        [c.id, 3],
      ]),
    )
    await notes.delete(b.id)
    await eventually(() =>
      equal(seen(), [
        [c.id, 3],
        [a.id, 1],
      ]),
    )
    await notes.update(a.id, { views: 9 })
    await eventually(() =>
      equal(seen(), [
        [a.id, 9],
        [c.id, 3],
      ]),
    )
    stop()
    // A composite key, and more lists than one connection takes.
    const marks = svc.from('marks')
    const mark = `live ${Math.random()}`
    const counts: number[] = []
    for (let n = 0; n < 22; n++) {
      const count = (now: readonly unknown[]): void => {
        counts[n] = now.length
      }
      untilEnd(marks.live({ filter: { b: mark }, perPage: n + 5 }, count))
    }
    await eventually(() => equal(counts, Array(22).fill(0)))
    await marks.create({ a: 1, b: mark })
    await marks.create({ a: 2, b: mark })
    await eventually(() => equal(counts, Array(22).fill(2)))
    await marks.delete([1, mark])
    await eventually(() => equal(counts, Array(22).fill(1)))
    const errors: string[] = []
    untilEnd(svc.from('nope' as 'notes').live({}, () => {}, { onError: ({ error }) => void errors.push(error) }))
    await eventually(() => equal(errors, ['collection_not_found']))
  },

  async 'a live list is that of who is signed in'(place) {
    const svc = clientAt(place)
    await svc.auth.register(newAccount())
    const mine = svc.from('mine')
    let texts: string[] = []
    const errors: string[] = []
    const listen = (perPage: number) =>
      mine.live(
        { perPage },
        (rows) => {
          texts = rows.map(({ text }) => text)
        },
        { onError: ({ error }) => void errors.push(error) },
      )
    untilEnd(listen(10))
    await mine.create({ text: 'a' })
    await eventually(() => equal(texts, ['a']))
    await svc.auth.logout()
    equal(texts, [])
    // Visitors have no live lists: it is said at once, once for each list, and they begin with the next sign-in.
    await eventually(() => equal(errors, ['unauthorized']))
    untilEnd(listen(11))
    await eventually(() => equal(errors, ['unauthorized', 'unauthorized']))
    await svc.auth.register(newAccount())
    await mine.create({ text: 'b' })
    await eventually(() => equal(texts, ['b']))
  },
}
