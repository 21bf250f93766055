import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import fc from 'fast-check'
import { type InProcessServer, startServer } from '../../../../test/kit/kit.ts'

type Row = { id: number; n: number | null; t: string | null; b: boolean | null }
type Truth = boolean | null
/** A filter in the client's words, and what it should say about a row. */
type Case = { text: string; holds: (row: Row) => Truth }

const rows: Row[] = Array.from({ length: 40 }, (_, i) => ({
  id: i,
  n: i % 7 === 0 ? null : (i % 5) - 2,
  t: i % 6 === 0 ? null : (['', 'a', 'ab', "it's", 'a%b', 'A_b', '\\', 'é😀'][i % 8] ?? ''),
  b: i % 4 === 0 ? null : i % 2 === 0,
}))

let api: InProcessServer
before(async () => {
  api = await startServer()
  await api.sql('create table facts (id int primary key, n int, t text, b boolean)')
  await api.call('POST /api/collections/facts/batch', {
    json: { operations: rows.map((body) => ({ method: 'create', body })) },
  })
})

const like = (pattern: string): RegExp => {
  let source = ''
  for (let i = 0; i < pattern.length; i++) {
    const char = pattern.charAt(i)
    if (char === '%') source += '.*'
    else if (char === '_') source += '.'
    else source += (char === '\\' ? pattern.charAt(++i) : char).replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
  }
  return new RegExp(`^${source}$`, 'su')
}

const compare = (op: string, left: number | string, right: number | string): boolean => {
  switch (op) {
    case '=':
      return left === right
    case '!=':
      return left !== right
    case '<':
      return left < right
    case '<=':
      return left <= right
    case '>':
      return left > right
    default:
      return left >= right
  }
}

const quoted = fc
  .tuple(fc.constantFrom('', 'a', 'ab', "it's", 'a%b', 'A_b', '\\', 'é😀', "x''y"), fc.boolean())
  .map(([value, doubled]) => ({
    value,
    text: `'${value.replaceAll('\\', '\\\\').replaceAll("'", doubled ? "''" : "\\'")}'`,
  }))
const op = fc.constantFrom('=', '!=', '<', '<=', '>', '>=')
const spaces = fc.constantFrom('', ' ', '  ', '\n')

const onNumber = fc
  .tuple(op, fc.integer({ min: -3, max: 3 }), spaces)
  .map(([o, v, s]): Case => ({ text: `n${s}${o}${s}${v}`, holds: ({ n }) => (n === null ? null : compare(o, n, v)) }))
// Only equality for text: how texts are ordered is the database's business.
const onText = fc.tuple(fc.constantFrom('=', '!='), quoted).map(
  ([o, { value, text }]): Case => ({
    text: `"t"${o}${text}`,
    holds: ({ t }) => (t === null ? null : compare(o, t, value)),
  }),
)
const onLike = fc.tuple(fc.boolean(), fc.constantFrom('a%', '%b', '_', '%', '', 'a\\%b', 'it_s', '%😀')).map(
  ([negated, pattern]): Case => ({
    text: `t ${negated ? '!~' : '~'} '${pattern.replaceAll('\\', '\\\\')}'`,
    holds: ({ t }) => (t === null ? null : like(pattern).test(t) !== negated),
  }),
)
const onBoolean = fc.tuple(fc.constantFrom('true', 'FALSE'), fc.constantFrom('=', '!=')).map(
  ([v, o]): Case => ({
    text: `b${o}${v}`,
    holds: ({ b }) => (b === null ? null : (b === (v === 'true')) === (o === '=')),
  }),
)
const onNull = fc.tuple(fc.constantFrom('n', 't', 'b'), fc.boolean()).map(
  ([column, negated]): Case => ({
    text: `${column}${negated ? '!=' : '='}NULL`,
    holds: (row) => (row[column as 'n' | 't' | 'b'] === null) !== negated,
  }),
)
const onList = fc
  .array(fc.integer({ min: -3, max: 3 }), { minLength: 1, maxLength: 5 })
  .map(
    (list): Case => ({ text: `n in (${list.join(', ')})`, holds: ({ n }) => (n === null ? null : list.includes(n)) }),
  )

const { filter } = fc.letrec<{ filter: Case; leaf: Case; chain: Case }>((tie) => ({
  leaf: fc.oneof(onNumber, onText, onLike, onBoolean, onNull, onList),
  chain: fc
    .tuple(
      fc.constantFrom('and', 'AND', '&&', 'or', 'Or', '||'),
      fc.array(tie('filter'), { minLength: 2, maxLength: 4 }),
    )
    .map(([word, parts]): Case => {
      const isAnd = /and|&&/i.test(word)
      return {
        text: parts.map(({ text }) => `(${text})`).join(` ${word} `),
        holds: (row) => {
          const truths = parts.map(({ holds }) => holds(row))
          if (truths.includes(!isAnd)) return !isAnd
          return truths.includes(null) ? null : isAnd
        },
      }
    }),
  filter: fc.oneof({ maxDepth: 3 }, tie('leaf'), tie('chain')),
}))

test('PostgreSQL and a reference evaluator agree about every filter', async () => {
  await fc.assert(
    fc.asyncProperty(filter, async ({ text, holds }) => {
      const query = new URLSearchParams({ filter: text, fields: 'id', perPage: '500' })
      const { status, body } = await api.call(`GET /api/collections/facts?${query}`)
      assert.equal(status, 200, `${text}: ${JSON.stringify(body)}`)
      const expected = rows.filter((row) => holds(row) === true).map(({ id }) => id)
      assert.deepEqual(
        body.items.map(({ id }: { id: number }) => id),
        expected,
        text,
      )
      assert.equal(body.totalItems, expected.length)
    }),
    { numRuns: 250 },
  )
})
