import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { withoutExtensions } from '../../../test/kit/cluster.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'

test('columns of places and vectors are described as JSON shows them', { skip: withoutExtensions }, async () => {
  const api = await startServer({ postgres: 'extensions' })
  await api.sql(`create extension if not exists postgis; create extension if not exists vector;
    create table spots (id int primary key, at geometry(Point, 4326) not null, world geography, v vector(3), h halfvec(2),
      ats geometry[], worlds geography[], vs vector[]);
    insert into spots values (1, 'SRID=4326;POINT(1 2)', null, null, null, array['POINT(1 2)'::geometry], array['POINT(1 2)'::geography], array['[1,2]'::vector])`)
  const document = await eventually(
    async () => {
      const { status, body } = await api.call('GET /api/openapi.json')
      assert.equal(status, 200)
      assert.ok(body.components.schemas['Row.spots'], 'the table is not known yet')
      return body
    },
    { seconds: 60 },
  )
  const { valid, errors } = await new Validator().validate(document)
  assert.ok(valid, JSON.stringify(errors))
  const { at, world, v, h, ats, worlds, vs } = document.components.schemas['Row.spots'].properties
  assert.deepEqual([at.type, at.description], ['object', 'GeoJSON'])
  const orNull = (type: object) => ({ anyOf: [type, { type: 'null' }] })
  assert.deepEqual(world, orNull(at))
  for (const vector of [v, h]) assert.deepEqual(vector, orNull({ type: 'array', items: { type: 'number' } }))
  const listOf = (type: object) => orNull({ type: 'array', items: orNull(type) })
  assert.deepEqual([ats, worlds, vs], [listOf(at), listOf({ type: 'string' }), listOf({ type: 'string' })])
  const { body } = await api.call('GET /api/collections/spots/1')
  assert.deepEqual([body.ats[0].type, typeof body.worlds[0], body.vs], ['Point', 'string', ['[1,2]']])
})
