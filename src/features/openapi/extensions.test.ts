import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { withoutExtensions } from '../../../test/kit/cluster.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'

test('columns of places and vectors are described as JSON shows them', { skip: withoutExtensions }, async () => {
  const api = await startServer({ postgres: 'extensions' })
  await api.sql(`create extension if not exists postgis; create extension if not exists vector;
    create table spots (id int primary key, at geometry(Point, 4326) not null, world geography, v vector(3), h halfvec(2))`)
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
  const { at, world, v, h } = document.components.schemas['Row.spots'].properties
  assert.deepEqual([at.type, at.description], ['object', 'GeoJSON'])
  const orNull = (type: object) => ({ anyOf: [type, { type: 'null' }] })
  assert.deepEqual(world, orNull(at))
  for (const vector of [v, h]) assert.deepEqual(vector, orNull({ type: 'array', items: { type: 'number' } }))
})
