import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createDatabase, stopClusters } from '../../../../test/kit/cluster.ts'
import { openConnection } from '../../../db/protocol/driver.ts'
import { changeSchema } from '../../../db/setup/migrate.ts'
import { forgetLater, type Note } from '../plan.ts'
import type { SchemaStep } from './ddl.ts'
import { runSteps } from './run-steps.ts'

after(stopClusters)

const step = (what: string, sql: string): SchemaStep => ({ by: 'server', phase: 'before', what, sql })

test('what PostgreSQL refuses is a note, what a deadlock undid is done again', async (t) => {
  const { url, drop } = await createDatabase('embedded')
  const client = await openConnection({ url })
  t.after(() => client.end().then(drop))
  await client.query('create sequence tries')
  const steps = [
    step('view of none', 'create view v as select * from none'),
    // A sequence keeps its value when the transaction is undone.
    step(
      'constraint',
      `create table made (); do $$ begin if nextval('tries') < 3 then raise 'deadlock detected' using errcode = '40P01'; end if; end $$`,
    ),
  ]
  const notes: Note[] = [{ level: 'changed', what: 'before', why: 'stays' }]
  await changeSchema(client, () => runSteps(client, steps, notes), forgetLater(notes))
  assert.deepEqual(
    notes.map(({ what, why }) => [what, why]),
    [
      ['before', 'stays'],
      ['view of none', 'relation "none" does not exist'],
    ],
  )
  assert.deepEqual((await client.query(`select to_regclass('made')::text as made, last_value::int from tries`)).rows, [
    { made: 'made', last_value: '3' },
  ])
})
