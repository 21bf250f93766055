import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ident } from '../sql.ts'
import { findFunctions, findRelation, findTable, isVisible, mayDo, mayExecute, visibleColumns } from './lookup.ts'
import type { Column, Fn, Privilege, Relation, Schema, Table } from './snapshot.ts'

const column = (name: string, readers: readonly ('svc_anon' | 'svc_authenticated')[]): Column => ({
  name,
  ident: new Ident(name),
  position: 1,
  type: 'text',
  castType: new Ident('pg_catalog', 'text'),
  baseType: 'text',
  typeKind: 'b',
  isArray: false,
  element: undefined,
  notNull: false,
  nullable: true,
  default: undefined,
  comment: undefined,
  isPrimaryKey: false,
  isGenerated: false,
  generation: undefined,
  isIdentity: false,
  isText: true,
  isGeometry: false,
  isGeography: false,
  isVector: false,
  vectorDim: undefined,
  geometryType: '',
  srid: 0,
  coordDimension: undefined,
  jsonType: 'string',
  enumValues: undefined,
  operators: undefined,
  readsBack: true,
  privileges: {
    svc_anon: new Set(readers.includes('svc_anon') ? ['select'] : []),
    svc_authenticated: new Set(readers.includes('svc_authenticated') ? ['select'] : []),
  },
})

const relation = (fieldName: string, names: readonly string[]): Relation => ({
  constraint: `${fieldName}_fkey`,
  type: 'many-to-one',
  fieldName,
  names,
  fromColumns: [],
  to: 'public.x',
  toColumns: [],
})

function table(schema: string, name: string, more: Partial<Table> = {}): Table {
  const none = new Set<Privilege>()
  return {
    schema,
    name,
    ident: new Ident(schema, name),
    oid: 1,
    kind: 'table',
    comment: undefined,
    columns: new Map(),
    primaryKey: [],
    foreignKeys: [],
    relations: [],
    checkConstraints: [],
    indexes: [],
    uniqueKeys: [],
    rlsEnabled: false,
    rlsPolicies: [],
    privileges: { svc_anon: none, svc_authenticated: none },
    wholeFor: new Set(['none']),
    insertable: true,
    updatable: true,
    watched: false,
    hasRules: false,
    runsUserCode: false,
    ...more,
  }
}

const fn = (schema: string, name: string): Fn => ({
  schema,
  name,
  ident: new Ident(schema, name),
  oid: 1,
  comment: undefined,
  parameters: [],
  returnType: 'integer',
  returnsSet: false,
  isVoid: false,
  returnsRow: false,
  rowOf: undefined,
  columns: [],
  resultForm: undefined,
  volatility: 'volatile',
  executableBy: new Set(['svc_authenticated']),
})

const schemaOf = (tables: Table[], functions: Fn[] = []): Schema => ({
  objects: undefined,
  tables: new Map(tables.map((t) => [`${t.schema}.${t.name}`, t])),
  functions: new Map(functions.map((f) => [`${f.schema}.${f.name}`, [f]])),
  schemas: ['app', 'public'],
  postGIS: undefined,
  pgVector: undefined,
  pgTrgm: undefined,
  serverVersion: 180000,
  callerIds: [],
  warnings: [],
  builtAt: new Date(0),
})

test('an unqualified name is looked up in the order of the exposed schemas', () => {
  const schema = schemaOf([table('public', 'notes'), table('app', 'notes'), table('public', 'only')])
  assert.equal(findTable(schema, 'notes')?.schema, 'app')
  assert.equal(findTable(schema, 'only')?.schema, 'public')
  assert.equal(findTable(schema, 'public.notes')?.schema, 'public')
  for (const miss of ['', '.', 'notes;--', '"notes"', 'svc.users', 'constructor', '__proto__', 'NOTES']) {
    assert.equal(findTable(schema, miss), undefined, miss)
  }
})

test('a dot in a table name is part of the name, and hides no qualified table', () => {
  const schema = schemaOf([table('app', 'public.notes'), table('public', 'notes'), table('app', 'a.b')])
  assert.equal(findTable(schema, 'public.notes')?.name, 'notes')
  assert.equal(findTable(schema, 'app.public.notes')?.name, 'public.notes')
  assert.equal(findTable(schema, 'a.b')?.name, 'a.b')
})

test('functions are found by name or qualified name, and a miss is an empty list', () => {
  const schema = schemaOf([], [fn('public', 'add')])
  assert.equal(findFunctions(schema, 'add').length, 1)
  assert.equal(findFunctions(schema, 'public.add').length, 1)
  assert.deepEqual(findFunctions(schema, 'pg_catalog.pg_sleep'), [])
})

test('a role sees the columns it may select; the server itself sees all', () => {
  const columns = [column('id', ['svc_anon', 'svc_authenticated']), column('secret', ['svc_authenticated'])]
  const notes = table('public', 'notes', { columns: new Map(columns.map((c) => [c.name, c])) })
  const names = (role: Parameters<typeof visibleColumns>[1]) => visibleColumns(notes, role).map((c) => c.name)
  assert.deepEqual(names('svc_anon'), ['id'])
  assert.deepEqual(names('svc_authenticated'), ['id', 'secret'])
  assert.deepEqual(names('none'), ['id', 'secret'])
})

test('privileges are checked per role', () => {
  const notes = table('public', 'notes', {
    privileges: { svc_anon: new Set(), svc_authenticated: new Set<Privilege>(['select', 'insert']) },
  })
  assert.equal(mayDo(notes, 'svc_authenticated', 'insert'), true)
  assert.equal(mayDo(notes, 'svc_authenticated', 'delete'), false)
  assert.equal(mayDo(notes, 'none', 'delete'), true)
  assert.equal(isVisible(notes, 'svc_anon'), false)
  assert.equal(isVisible(notes, 'svc_authenticated'), true)
  assert.equal(mayExecute(fn('public', 'f'), 'svc_anon'), false)
  assert.equal(mayExecute(fn('public', 'f'), 'svc_authenticated'), true)
})

test('a relation is found by each of its names, its own field name first', () => {
  const byColumn = relation('authors', ['authors', 'author', 'posts_author_fkey'])
  const byField = relation('author', ['author', 'author_id', 'posts_author_id_fkey'])
  const posts = table('public', 'posts', { relations: [byColumn, byField] })
  assert.equal(findRelation(posts, 'author'), byField)
  assert.equal(findRelation(posts, 'author_id'), byField)
  assert.equal(findRelation(posts, 'posts_author_fkey'), byColumn)
  assert.equal(findRelation(posts, 'nope'), undefined)
})
