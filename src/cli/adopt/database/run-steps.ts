import type pg from 'pg'
import { ADOPTED_OWNER } from '../adopted-owner.ts'
import type { Note } from '../plan.ts'
import type { SchemaStep } from './ddl.ts'

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
      const error = await attempt(client, step)
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

async function attempt(client: pg.Client, { by, sql }: SchemaStep): Promise<Error | undefined> {
  const isOwners = by === 'owner'
  await client.query(`savepoint step${isOwners ? `; set local role ${ADOPTED_OWNER}` : ''}`)
  try {
    await client.query(sql)
    await client.query(`${isOwners ? 'reset role; ' : ''}release savepoint step`)
    return undefined
  } catch (error) {
    await client.query('rollback to savepoint step; release savepoint step')
    return error as Error
  }
}
