import type pg from 'pg'
import { ADOPTED_OWNER } from '../adopted-owner.ts'
import type { Note } from '../plan.ts'
import type { SchemaStep } from './ddl.ts'
import { withSavepoint } from './savepoint.ts'

const MAX_REASON = 300

/**
 * Runs what it can. What failed is tried again after the others, as long as that helps: views and functions may need each
 * other in any order. A failure is a note, for rights and rules that something stays closed. Within a transaction.
 */
export async function runSteps(client: pg.Client, steps: readonly SchemaStep[], notes: Note[]): Promise<void> {
  await client.query('set local check_function_bodies = off')
  let waiting = steps
  for (;;) {
    const failed: { step: SchemaStep; error: Error }[] = []
    for (const step of waiting) {
      const error = await withSavepoint(client, () => run(client, step))
      if (error) failed.push({ step, error })
    }
    if (failed.length === 0) return
    if (failed.length === waiting.length) {
      for (const { step, error } of failed)
        notes.push({ level: step.level ?? 'skipped', what: step.what, why: error.message.slice(0, MAX_REASON) })
      return
    }
    waiting = failed.map(({ step }) => step)
  }
}

async function run(client: pg.Client, { by, sql }: SchemaStep): Promise<void> {
  if (by === 'owner') await client.query(`set local role ${ADOPTED_OWNER}`)
  await client.query(sql)
  if (by === 'owner') await client.query('reset role')
}
