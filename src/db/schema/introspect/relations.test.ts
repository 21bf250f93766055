import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Link, relationsOf } from './relations.ts'

/** `child.column → parent`, under PostgreSQL's usual constraint name unless another is given. */
function link(from: string, columns: string, to: string, more: Partial<Link> = {}): Link {
  const fromColumns = columns.split(' ')
  return {
    constraint: `${from}_${fromColumns.join('_')}_fkey`,
    from: `public.${from}`,
    fromName: from,
    fromRank: 0,
    fromColumns,
    to: `public.${to}`,
    toName: to,
    toColumns: fromColumns.map((_, i) => `id${i}`),
    inherited: false,
    ...more,
  }
}

const names = (outgoing: Link[], incoming: Link[] = []) =>
  Object.fromEntries(relationsOf(outgoing, incoming).map((r) => [`${r.type} ${r.fromColumns} ${r.toColumns}`, r.names]))
const fieldNames = (outgoing: Link[], incoming: Link[] = []) =>
  relationsOf(outgoing, incoming).map(({ fieldName }) => fieldName)

test('a many-to-one is named after its column, else after the table it leads to', () => {
  assert.deepEqual(names([link('posts', 'author_id', 'people')]), {
    'many-to-one author_id id0': ['author', 'author_id', 'posts_author_id_fkey'],
  })
  assert.deepEqual(names([link('posts', 'author', 'people')]), {
    'many-to-one author id0': ['people', 'author', 'posts_author_fkey'],
  })
  assert.deepEqual(fieldNames([link('posts', '_id', 'people')]), ['people'])
  assert.deepEqual(names([link('lines', 'shop no', 'orders')]), {
    'many-to-one shop,no id0,id1': ['orders', 'lines_shop_no_fkey'],
  })
})

test('several many-to-ones to one table keep apart', () => {
  const outgoing = [link('posts', 'created_by', 'users'), link('posts', 'updated_by', 'users')]
  assert.deepEqual(fieldNames(outgoing), ['users', 'updated_by'])
})

test('a name made from a column is never pushed aside by a table of that name', () => {
  const outgoing = [link('posts', 'a_person', 'author'), link('posts', 'author_id', 'people')]
  assert.deepEqual(fieldNames(outgoing), ['a_person', 'author'])
})

test('two keys over one column are distinguished by their constraints', () => {
  const first = link('posts', 'owner_id', 'users', { constraint: 'a' })
  const second = link('posts', 'owner_id', 'accounts', { constraint: 'b' })
  assert.deepEqual(fieldNames([first, second]), ['owner', 'b'])
})

test('a one-to-many is the child table; several are named by their columns and the first has the bare name too', () => {
  assert.deepEqual(names([], [link('posts', 'author_id', 'people')]), { 'one-to-many id0 author_id': ['posts'] })
  assert.deepEqual(names([], [link('posts', 'author_id', 'people'), link('posts', 'editor_id', 'people')]), {
    'one-to-many id0 author_id': ['posts_via_author_id', 'posts'],
    'one-to-many id0 editor_id': ['posts_via_editor_id'],
  })
  assert.deepEqual(fieldNames([], [link('l', 'a b', 'o'), link('l', 'c d', 'o')]), ['l_via_a_b', 'l_via_c_d'])
})

test('a one-to-many gives way to a many-to-one of the same name', () => {
  const pinned = link('posts', 'pinned', 'comments')
  const comments = link('comments', 'post_id', 'posts')
  assert.deepEqual(fieldNames([pinned], [comments]), ['comments', 'comments_via_post_id'])
})

test('children of one name in two schemas have different names', () => {
  const here = link('notes', 'user_id', 'users')
  const there = { ...here, from: 'app.notes' }
  const found = fieldNames([], [here, there])
  assert.equal(new Set(found).size, 2)
})

test('a name goes on meaning the child of the first schema when a later one has a child of that name', () => {
  const here = link('posts', 'author_id', 'people')
  const there = { ...here, from: 'other.posts', fromRank: 1, constraint: 'a_first_one' }
  const second = link('posts', 'editor_id', 'people')
  const found = (...incoming: Link[]) => relationsOf([], incoming).map(({ to, names }) => [to, ...names])
  assert.deepEqual(found(there, here), [
    ['other.posts', 'posts_via_author_id'],
    ['public.posts', 'posts'],
  ])
  assert.deepEqual(found(there, here, second), [
    ['other.posts', 'a_first_one'],
    ['public.posts', 'posts_via_author_id', 'posts'],
    ['public.posts', 'posts_via_editor_id'],
  ])
})
