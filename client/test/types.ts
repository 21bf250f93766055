// Compile-time cases: `npm run check` compiles this file, and nothing runs it. Every mistake is one that the compiler must
// find, and every `Is` a type that must be exactly so.
import { createClient, type TextNumbers, where } from '../src/main.ts'
import type { Database } from './schema.ts'

type Is<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
type Plain<T> = T extends readonly (infer E)[] ? Plain<E>[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T
const is = <_Holds extends true>(): void => {}

const svc = createClient<Database>('http://localhost')
type Tables = Database['tables']
type Note = Tables['notes']['Row']
type List = Tables['lists']['Row']

export async function rows() {
  const notes = svc.from('notes')
  // @ts-expect-error: no such table
  svc.from('nots')
  const note = await notes.get(7)
  is<Is<typeof note, Note>>()
  is<Is<typeof note.views, number | bigint>>()
  is<Is<typeof note.price, number | bigint | string | null>>()
  is<Is<typeof note.mood, 'calm' | 'wild'>>()
  const maybe = await notes.find(7)
  is<Is<typeof maybe, Note | null>>()
  await notes.get(7n)
  // @ts-expect-error: the key is a number
  await notes.get('7')
  // @ts-expect-error: a key is needed
  await notes.get()
  await svc.from('marks').get([1, 'b'])
  // @ts-expect-error: both parts of the key
  await svc.from('marks').get([1])
  // @ts-expect-error: in their order
  await svc.from('marks').delete(['b', 1])

  await notes.create({ title: 't', views: 9007199254740993n, price: '1.50', mood: 'wild' })
  // @ts-expect-error: a title is needed
  await notes.create({ done: true })
  // @ts-expect-error: no such column
  await notes.create({ title: 't', colour: 'red' })
  // @ts-expect-error: no such mood
  await notes.update(7, { mood: 'sad' })
  // @ts-expect-error: a boolean
  await notes.update(7, { done: 'yes' })
  // @ts-expect-error: PostgreSQL makes the id
  await svc.from('lists').create({ id: 1, name: 'l' })
  await notes.upsert({ slug: 'a', title: 't' }, { onConflict: ['slug'] })
  // @ts-expect-error: no such column
  await notes.upsert({ slug: 'a', title: 't' }, { onConflict: ['slugs'] })

  const [made, changed, gone] = await notes.batch([
    notes.op.create({ title: 't' }),
    notes.op.update(1, {}),
    notes.op.delete(2),
  ])
  is<Is<typeof made, Note>>()
  is<Is<typeof changed, Note>>()
  is<Is<typeof gone, null>>()
  // @ts-expect-error: no such column
  notes.op.update(1, { x: 1 })
}

export async function fields() {
  const notes = svc.from('notes')
  const { items } = await notes.list({ fields: ['id', 'title'], sort: '-id', perPage: 50 })
  is<Is<Plain<typeof items>, { id: number | bigint; title: string }[]>>()
  // @ts-expect-error: was not asked for
  items[0]?.done
  // @ts-expect-error: no such column
  await notes.list({ fields: ['id', 'titel'] })
  await notes.list({ sort: ['-views', 'title'] })
  // @ts-expect-error: no such column
  await notes.list({ sort: '-view' })
  const { nextCursor } = await notes.list({ cursor: '' })
  is<Is<typeof nextCursor, string | null>>()
  // @ts-expect-error: pages have no cursor
  ;(await notes.list({ page: 2 })).nextCursor
  for await (const { title } of notes.each({ fields: ['title'] })) is<Is<typeof title, string>>()
  const first = await notes.first({ fields: ['done'] })
  is<Is<Plain<typeof first>, { done: boolean } | null>>()
  const [group] = await notes.aggregate({ group: ['done'], count: true, sum: ['views'] })
  is<
    Is<
      typeof group extends { done: boolean; count: number; sum_views: infer S } | undefined ? S : never,
      number | bigint | string | null
    >
  >()
  // @ts-expect-error: was not asked for
  group?.avg_views
  const [mean] = await notes.aggregate({ avg: ['price'] })
  is<Is<NonNullable<typeof mean>['avg_price'], number | bigint | string | null>>()
  // @ts-expect-error: no such column
  await notes.aggregate({ sum: ['view'] })
  const found = await notes.search('lions', { facets: ['done', 'mood'], highlight: true })
  is<Is<keyof NonNullable<typeof found.facets>, 'done' | 'mood'>>()
  await notes.near({ column: 'vector', text: 'big cats', perPage: 5 })
  // @ts-expect-error: a text or a vector
  await notes.near({ column: 'vector' })
}

export async function expand() {
  const notes = svc.from('notes')
  const one = await notes.get(1, { expand: ['list'] })
  is<Is<Plain<typeof one.expand>, { list: List | null }>>()
  const deep = await notes.get(1, { fields: ['id'], expand: ['list.notes.list'] })
  is<Is<typeof deep.id, number | bigint>>()
  // @ts-expect-error: was not asked for
  deep.title
  const inner = deep.expand.list?.expand.notes[0]
  is<Is<NonNullable<typeof inner>['title'], string>>()
  is<Is<Plain<NonNullable<typeof inner>['expand']>, { list: List | null }>>()
  const { items } = await svc.from('lists').list({ expand: ['notes'] })
  is<Is<Plain<NonNullable<(typeof items)[0]>['expand']['notes']>, Plain<Note>[]>>()
  // @ts-expect-error: no such relation
  await notes.list({ expand: ['lists'] })
  // @ts-expect-error: no such relation there
  await notes.list({ expand: ['list.owner'] })
  // @ts-expect-error: nothing is expanded
  ;(await notes.get(1)).expand
}

export async function filters() {
  const notes = svc.from('notes')
  await notes.list({ filter: where`owner = ${'x'} AND (${where`views > ${10}`} OR id IN ${[1, 2n]})` })
  await notes.list({
    filter: { done: false, views: { gt: 10n }, title: { like: 'a%' }, slug: null, list: { name: 'l' } },
  })
  await notes.list({ filter: { or: [{ done: true }, where`views = ${1}`], id: [1, 2], at: { lt: new Date() } } })
  await notes.list({ filter: { price: { lt: 5n } } })
  const [teams, cars] = [svc.from('teams'), svc.from('cars')]
  await teams.update(1, {})
  await teams.create({ id: 1 })
  await cars.update(1, { toString: 'a car' })
  await cars.list({ filter: { id: 1, team: { id: 1 } } })
  await cars.list({ filter: { team: { constructor: 'Ferrari' } } })
  // @ts-expect-error: a text
  await cars.list({ filter: { team: { constructor: 1 } } })
  // @ts-expect-error: a text
  await teams.update(1, { constructor: 1 })
  // @ts-expect-error: no such column
  await notes.list({ filter: { don: false } })
  // @ts-expect-error: a boolean
  await notes.list({ filter: { done: 'no' } })
  // @ts-expect-error: no such operator
  await notes.list({ filter: { views: { above: 10 } } })
  // @ts-expect-error: no such column of the relation
  await notes.list({ filter: { list: { nam: 'l' } } })
  // @ts-expect-error: no such mood
  await notes.list({ filter: { mood: ['calm', 'sad'] } })
  // @ts-expect-error: texts are not filters
  await notes.list({ filter: 'done = true' })
  // @ts-expect-error: values only
  where`a = ${{}}`
  // @ts-expect-error: values only
  where`a = ${undefined}`
}

export async function functionsAndViews() {
  const sum = await svc.rpc('add', { a: 1, b: 2n })
  is<Is<typeof sum, number | bigint>>()
  const set = await svc.rpc('wild')
  is<Is<typeof set, Note[]>>()
  const nothing = await svc.rpc('nothing')
  is<Is<typeof nothing, undefined>>()
  // @ts-expect-error: no such function
  await svc.rpc('subtract', { a: 1 })
  // @ts-expect-error: an argument is missing
  await svc.rpc('add', { b: 1 })
  // @ts-expect-error: arguments are missing
  await svc.rpc('add')
  // @ts-expect-error: no such argument
  await svc.rpc('add', { a: 1, c: 1 })

  const titles = svc.from('titles')
  is<Is<Awaited<ReturnType<typeof titles.count>>, number>>()
  // @ts-expect-error: a view has no key
  titles.get
  // @ts-expect-error: nor can it be written
  titles.create
  // @ts-expect-error: nor changed
  titles.update
}

export function changes() {
  const stop = svc.from('notes').watch({
    filter: { done: false },
    onChange(change) {
      if (change.action === 'delete') is<Is<typeof change.record.title, string | undefined>>()
      else is<Is<typeof change.record, Note>>()
    },
    onStatus: (status) => is<Is<typeof status, 'connecting' | 'live' | 'ended'>>(),
  })
  is<Is<typeof stop, () => void>>()
  // @ts-expect-error: no such column
  svc.from('notes').watch({ filter: { don: false }, onChange() {} })
}

export async function numbersAsText() {
  const asText = createClient<TextNumbers<Database>>('http://localhost', { numbers: 'text' })
  const { views, at } = await asText.from('notes').get(1)
  is<Is<typeof views, number | string>>()
  is<Is<typeof at, string>>()
  await asText.from('teams').update(1, {})
  await asText.from('cars').list({ filter: { team: { id: 1 } } })
}

export async function untyped() {
  const any = createClient('http://localhost')
  const { items } = await any.from('anything').list({ filter: { a: 1 }, fields: ['a'], expand: ['b'], sort: '-c' })
  is<Is<(typeof items)[0]['a'], unknown>>()
  await any.from('anything').get('key')
  await any.from('anything').update([1, 'b'], { x: 1 })
  await any.rpc('f', { x: 1 })
}

export async function people() {
  const signIn = await svc.auth.login({ email: 'a@x.test', password: 'p' })
  // @ts-expect-error: a second factor may be missing
  signIn.user.id
  if (signIn.mfa) await signIn.mfa.totp('123456')
  else is<Is<typeof signIn.user.email, string>>()
  is<Is<NonNullable<typeof svc.auth.session>['token'], string>>()
  // @ts-expect-error: an email is needed
  await svc.auth.login({ password: 'p' })
}
