import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError, unavailable } from '../../../core/errors.ts'
import { asServer, type Identity } from '../../../core/identity.ts'
import type { Change } from '../../../db/changes/log.ts'
import type { Db } from '../../../db/db.ts'
import type { Schema, Table } from '../../../db/schema/snapshot.ts'
import { Ident, type Sql, sql as sqlOf } from '../../../db/sql.ts'
import { type Interest, interestOf } from '../subscribe/interest.ts'
import { EVERYTHING, wantedTables } from '../subscribe/wanted.ts'
import { viewOf } from './batch-view.ts'
import { newShapeCache } from './shapes.ts'

const user = (id: string): Identity => ({
  ...{ kind: 'user', id, email: '', aal: 'aal1', amr: [], sessionId: id, isAnonymous: false, expiresAt: 0 },
})
const ADMIN = asServer('')
const all = (id: string): Interest => interestOf(user(id), EVERYTHING)
const on = (who: Identity, table: string, filter?: string): Interest =>
  interestOf(who, wantedTables([`public.${table}`], filter))

/** Tables of a text column `owner` and, in `cut`, one that callers may not read. */
const OIDS = { open: 1, secured: 2, cut: 3 } as const
function tableOf(name: keyof typeof OIDS): Table {
  const select = { svc_anon: new Set(['select']), svc_authenticated: new Set(['select']) }
  const nothing = { svc_anon: new Set(), svc_authenticated: new Set() }
  const column = (column: string, position: number, privileges: object) => {
    const names = { name: column, position, ident: new Ident(column), castType: new Ident('text'), baseType: 'text' }
    return [column, { ...names, isText: true, typeKind: 'b', privileges }] as const
  }
  const columns = new Map([column('owner', 1, select), ...(name === 'cut' ? [column('secret', 2, nothing)] : [])])
  const ident = new Ident('public', name)
  const keys = { primaryKey: [], relations: [], foreignKeys: [] }
  return {
    schema: 'public',
    name,
    ident,
    oid: OIDS[name],
    kind: 'table',
    columns,
    privileges: select,
    ...keys,
  } as unknown as Table
}
const SCHEMA = {
  tables: new Map((['open', 'secured', 'cut'] as const).map((name) => [`public.${name}`, tableOf(name)])),
  schemas: ['public'],
} as unknown as Schema

/** By the name of the table. */
const SHAPES = Object.fromEntries(
  [...SCHEMA.tables.values()].map(({ name, columns }) => [
    name,
    { isCertain: true, columns: [...columns.values()].map(({ position, name }) => [position, name]) },
  ]),
)

/** A page of creates; `record` is the owner of the row. */
const page = (...rows: [table: string, owner: string][]): Change[] =>
  rows.map(([name, record], i) => ({
    ...{
      position: `1-${i + 1}`,
      at: 0,
      action: 'create',
      schema: 'public',
      name,
      pk: `key of ${record}`,
      record,
      shape: name,
    },
    oid: SCHEMA.tables.get(`public.${name}`)?.oid ?? 0,
  }))

/**
 * PostgreSQL as far as it is asked here: rows of `secured` are seen by their owners, a filter matches rows that have an
 * owner, `raises` has a policy that fails and `broken` is no row.
 */
function database(changes: readonly Change[]) {
  const asked = { surveyed: [] as unknown[], flights: 0, filters: [] as string[], alone: [] as string[] }
  const ownersIn = (sql: Sql): string[] => {
    const array = sql.render().values.find((value) => typeof value === 'string' && value.startsWith('{'))
    return String(array).slice(1, -1).split(',')
  }
  const letters = (owners: string[], isSeen: (owner: string) => boolean): string =>
    `{${owners.map((owner) => (isSeen(owner) ? 't' : 'f')).join()}}|||`
  const images = (numbers: readonly number[]): string => {
    const owners = numbers.map((n) => String(changes[n]?.record))
    if (owners.includes('broken')) throw new AppError('bad_request', 'no row')
    const none = { numbers: [], array: '{}' }
    return JSON.stringify({ live: { numbers, array: `{${owners.join()}}` }, partial: none, gone: none, old: none })
  }
  const flyOne = (sql: Sql): string => {
    const { text, values } = sql.render()
    const numbers = values.find((value) => Array.isArray(value) && typeof value[0] === 'number') as number[]
    if (text.includes('relrowsecurity')) {
      asked.surveyed.push(numbers)
      const tables = [...SCHEMA.tables.values()].filter(({ oid }) => numbers.includes(oid))
      const states = tables.map(({ oid, schema, name, columns }) => {
        const visible = [...columns.values()].map((column) => {
          const isVisible = column.privileges.svc_anon.has('select')
          return [column.position, column.name, isVisible, isVisible]
        })
        return [oid, { schema, name, columns: visible, rls: oid === OIDS.secured, policies: {}, asked: [] }]
      })
      return JSON.stringify(Object.fromEntries(states))
    }
    if (text.includes('svc_item')) return images(numbers)
    if (text.includes('statement_timestamp')) return `${letters(ownersIn(sql), (owner) => owner !== 'none')}|7`
    return JSON.stringify(numbers.map((n) => [n, `${changes[n]?.record} without secret`, '{}']))
  }
  const flyAll = (statements: readonly Sql[]): (string | null)[] => {
    const survey = statements.find((sql) => sql.render().text.includes('relrowsecurity'))
    if (survey) return [JSON.stringify(SHAPES), flyOne(survey)].slice(-statements.length)
    asked.flights++
    let current: unknown
    return statements.map((sql, statementIndex) => {
      const { text, values } = sql.render()
      if (text.includes('svc.actor')) current = values[1]
      if (current === 'raises') throw new AppError('bad_request', 'division by zero', { cause: { statementIndex } })
      if (current === 'slow') throw new AppError('statement_timeout', 'too slow', { cause: { statementIndex } })
      if (current === 'away') throw unavailable('database is away')
      return text.includes('unnest') ? letters(ownersIn(sql), (owner) => owner === current) : null
    })
  }
  const fly = async (_who: Identity, sql: Sql | readonly Sql[]) => ('render' in sql ? flyOne(sql) : flyAll(sql))
  const filters = {
    run: <T>(identity: string, evaluate: () => Promise<T>): Promise<T> => {
      asked.filters.push(identity)
      return evaluate()
    },
  }
  const observed: string[] = []
  const slow: string[] = []
  const policies = {
    isSlow: (payer: string) => slow.includes(payer),
    spend: (payer: string) => void slow.push(payer),
    ask: <T>(payer: string, evaluate: (timeoutMs: number) => Promise<T>): Promise<T> => {
      asked.alone.push(payer)
      return evaluate(1)
    },
  }
  const deps = {
    db: { fly } as unknown as Db,
    log: { imagesBetween: () => sqlOf`svc.images_between()` },
    filters,
    policies,
    shapes: newShapeCache(),
    schema: { read: () => SCHEMA, isCurrent: async () => true },
    observe: ({ message }: { message: string }) => observed.push(message),
  }
  const view = (...interests: Interest[]) => viewOf(deps, changes, interests)
  return { asked, observed, view }
}

const positions = (verdict: unknown): unknown =>
  verdict instanceof Object && 'list' in verdict
    ? (verdict.list as { position: string }[]).map(({ position }) => position)
    : verdict

test('without policy, filter or hidden column nothing is asked, and all share the same bytes', async () => {
  const { view, asked } = database(page(['open', 'ana'], ['open', 'bo']))
  const [ana, bo] = [all('ana'), all('bo')]
  const opened = await view(ana, bo)
  assert.deepEqual(positions(opened.unchecked(ana)), ['1-1', '1-2'])
  assert.equal(opened.unchecked(ana), opened.unchecked(bo))
  assert.deepEqual(asked, { surveyed: [[OIDS.open]], flights: 0, filters: [], alone: [] })
})

test('a policy, a filter or a hidden column has to be asked about; a page of other tables has not', async () => {
  const changes = page(['open', 'ana'], ['secured', 'ana'], ['cut', 'ana'])
  const asking = [on(user('ana'), 'secured'), on(user('ana'), 'open', 'owner=1'), on(user('ana'), 'cut')]
  const elsewhere = on(user('ana'), 'missing')
  const opened = await database(changes).view(...asking, elsewhere)
  for (const interest of asking) assert.equal(opened.unchecked(interest), undefined)
  assert.deepEqual(positions(opened.unchecked(elsewhere)), [])
})

test('PostgreSQL is asked nothing about tables that are not listened to', async () => {
  const { view, asked } = database(page(['open', 'ana'], ['secured', 'ana']))
  const ana = on(user('ana'), 'open')
  await (await view(ana)).check([ana], false)
  assert.deepEqual(asked, { surveyed: [[OIDS.open]], flights: 0, filters: [], alone: [] })
})

test('each identity gets its rows in the order of the page, many identities in one flight', async () => {
  const { view, asked } = database(page(['secured', 'u1'], ['open', ''], ['secured', 'u2'], ['secured', 'u1']))
  const interests = Array.from({ length: 100 }, (_, i) => all(`u${i}`))
  const verdicts = await (await view(...interests)).check(interests, false)
  const [none, first, second] = interests.map((interest) => positions(verdicts.get(interest)))
  assert.deepEqual([none, first, second], [['1-2'], ['1-1', '1-2', '1-4'], ['1-2', '1-3']])
  assert.equal(asked.flights, 3)
})

test('a policy that raises is the verdict of its identity alone', async () => {
  const interests = ['u1', 'raises', 'u2', 'u3'].map(all)
  const verdicts = await (await database(page(['secured', 'u3'])).view(...interests)).check(interests, false)
  const found = interests.map((interest) => positions(verdicts.get(interest)))
  assert.deepEqual([found[0], found[2], found[3]], [[], [], ['1-1']])
  assert.ok(found[1] instanceof AppError)
})

test('who takes long has no verdict with the others, and one of its own', async () => {
  const interests = ['u1', 'slow', 'u2', 'u3'].map(all)
  const { view, asked } = database(page(['secured', 'u3']))
  const opened = await view(...interests)
  const verdicts = await opened.check(interests, false)
  const found = interests.map((interest) => positions(verdicts.get(interest)))
  assert.deepEqual(found, [[], undefined, [], ['1-1']])
  const flights = asked.flights
  assert.equal((await opened.check(interests.slice(1, 2), false)).size, 0)
  assert.equal(asked.flights, flights)
  const patient = await opened.check(interests.slice(1, 2), true)
  assert.ok([...patient.values()][0] instanceof AppError)
  assert.deepEqual(asked.alone, ['slow'])
})

test('a database that is away gives no verdict at all', async () => {
  const interests = ['u1', 'away'].map(all)
  const opened = await database(page(['secured', 'u1'])).view(...interests)
  await assert.rejects(opened.check(interests, false), { errorCode: 'unavailable' })
})

test('a record that is no row of its table is seen by no caller, and hides no other', async () => {
  const { view, observed } = database(page(['secured', 'ana'], ['secured', 'broken'], ['secured', 'ana']))
  const ana = all('ana')
  const verdicts = await (await view(ana)).check([ana], false)
  assert.deepEqual(positions(verdicts.get(ana)), ['1-1', '1-3'])
  assert.deepEqual(observed, ['realtime: logged record is no row of its table'])
})

test('of a table that is gone the admin alone hears', async () => {
  const [admin, ana] = [interestOf(ADMIN, EVERYTHING), all('ana')]
  const opened = await database(page(['gone', 'ana'])).view(admin, ana)
  assert.deepEqual([positions(opened.unchecked(admin)), positions(opened.unchecked(ana))], [['1-1'], []])
})

test('a filter is evaluated once for an identity, in its queue, beside the policies', async () => {
  const { view, asked } = database(page(['secured', 'ana'], ['secured', 'bo'], ['secured', 'none']))
  const [ana, same] = [on(user('ana'), 'secured', "owner='x'"), on(user('ana'), 'secured', "owner='x'")]
  const verdicts = await (await view(ana, same)).check([ana, same], false)
  for (const interest of [ana, same]) assert.deepEqual(positions(verdicts.get(interest)), ['1-1'])
  assert.deepEqual(asked.filters, ['ana'])
})

test('a filter whose column is gone is the verdict of its own subscription', async () => {
  const [bad, good] = [on(user('ana'), 'open', "gone='x'"), on(user('ana'), 'open', "owner='x'")]
  const verdicts = await (await database(page(['open', 'ana'])).view(bad, good)).check([bad, good], false)
  assert.ok(verdicts.get(bad) instanceof AppError)
  assert.deepEqual(positions(verdicts.get(good)), ['1-1'])
})

test('hidden columns are cut for those who may not read them', async () => {
  const [admin, ana] = [interestOf(ADMIN, EVERYTHING), on(user('ana'), 'cut')]
  const opened = await database(page(['cut', 'row'])).view(admin, ana)
  const cut = (await opened.check([ana], false)).get(ana)
  assert.ok(cut && !(cut instanceof AppError))
  assert.deepEqual([cut.list[0]?.record, opened.unchecked(admin)?.list[0]?.record], ['row without secret', 'row'])
})
