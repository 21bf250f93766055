import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDatabase } from '../../../test/kit/cluster.ts'
import { startServer } from '../../../test/kit/kit.ts'
import { loadConfig } from '../../config/config.ts'
import { openConnection } from '../../db/protocol/driver.ts'
import { explainStart } from './single.ts'

test('a start that fails says which statement failed and on what', async () => {
  for (const [damage, said] of [
    // What is needed before there is a pool, and what a feature needs.
    [
      'alter table svc.settings rename column value to was_value',
      /column .*value.* does not exist, in: .*svc\.settings/,
    ],
    ['drop table svc.log_key cascade', /relation "svc\.log_key" does not exist, in: select key from svc\.log_key/],
  ] as const) {
    const { url, drop } = await createDatabase('embedded')
    const client = await openConnection({ url })
    await client.query(damage)
    await client.end()
    const error = await startServer({ on: { databaseUrl: url } }).catch((thrown: unknown) => thrown)
    const { message } = explainStart(loadConfig({ overrides: { 'admin.password': 'x' } }).config, error)
    assert.match(message, /^the database refuses what a start needs: /)
    assert.match(message, said)
    await drop()
  }
})
