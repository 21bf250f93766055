import { reasonOf } from '../core/errors.ts'
import { SYSTEM } from '../core/identity.ts'
import type { Observe } from '../core/observe.ts'
import type { Db } from './db.ts'
import { Loop } from './loop.ts'
import type { Sql } from './sql.ts'

const EVERY_MS = 600_000
const SLICE = 5_000

/** Removes what nobody keeps any longer, now and every ten minutes, a slice at a time. */
export const sweep = (deps: { db: Db; observe: Observe; what: string; remove: (limit: number) => Sql }): Loop =>
  new Loop({
    step: async () => ((await deps.db.run(SYSTEM, deps.remove(SLICE))) === SLICE ? 0 : undefined),
    everyMs: EVERY_MS,
    onFailure: (error) =>
      deps.observe({ level: 'warn', message: `${deps.what} not removed`, attrs: { error: reasonOf(error) } }),
  })
