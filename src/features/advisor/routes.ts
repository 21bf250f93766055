import * as t from '../../core/json-type.ts'
import { Semaphore } from '../../core/limits.ts'
import type { Peers } from '../../core/peers.ts'
import type { Pool } from '../../db/pool/pool.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import type { Feature } from '../../http/feature.ts'
import { json, route } from '../../http/route.ts'
import type { AdviceItem } from './advice.ts'
import { adviceFor } from './advisor.ts'
import { StatementShapes } from './shapes.ts'

export type AdvisorFeatureDeps = { db: Pool; schema: SchemaCache; schemas: readonly string[]; askAllWorkers: Peers }

const item = t.object({
  kind: t.string(),
  table: t.string(),
  what: t.string(),
  sql: t.string({ description: 'to apply it' }),
  gain: t.optional(
    t.object({ before: t.number(), after: t.number() }, { description: 'costs of a plan, where hypopg is installed' }),
  ),
})

/** Advice for the operator, from statements that were seen and from the catalogue. */
export function createAdvisor({ db, schema, schemas, askAllWorkers }: AdvisorFeatureDeps): Feature & {
  advise: () => Promise<AdviceItem[]>
} {
  const shapes = new StatementShapes(db, () => db.shapes(1))
  const ofAll = askAllWorkers('shapes', () => shapes.unkept())
  const oneAtATime = new Semaphore(1)
  const advise = () =>
    oneAtATime.run(() => adviceFor({ db, schema, schemas, shapes: async () => shapes.all(await ofAll()) }), {
      timeoutMs: 10_000,
    })
  return {
    advise,
    routes: [
      route('GET /api/admin/advice', {
        summary: 'What would make this database faster or safer, with SQL to apply',
        leastRole: 'viewer',
        auth: 'admin',
        answers: { 200: t.object({ items: t.array(item) }) },
        handle: async () => json(200, { items: await advise() }),
      }),
    ],
    start: async () => shapes.start(),
    stop: () => shapes.stop(),
  }
}
