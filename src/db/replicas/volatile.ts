import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../db.ts'
import type { Schema } from '../schema/snapshot.ts'
import { sql } from '../sql.ts'

/**
 * Views whose rule, and tables and views whose policies, call a volatile function, and views over those: they may write or
 * depend on where they run. Functions of PostgreSQL itself have no entry in pg_depend, so they are read from the trees.
 */
const VOLATILE = sql`
  with recursive trees as (
    select r.ev_class as rel, r.ev_action::text as tree from pg_rewrite r where r.ev_class >= 16384
    union all
    select p.polrelid, coalesce(p.polqual::text, '') || coalesce(p.polwithcheck::text, '') from pg_policy p
  ), direct as (
    select distinct t.rel from trees t,
      lateral regexp_matches(t.tree, ':(?:funcid|opfuncid) (\\d+)', 'g') as found(id)
    where (select provolatile from pg_proc where oid = found.id[1]::oid) = 'v'
  ), spread as (
    select rel from direct
    union
    select r.ev_class from spread s
      join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = s.rel and d.classid = 'pg_rewrite'::regclass
      join pg_rewrite r on r.oid = d.objid
  )
  select coalesce(string_agg(rel::int8::text, ','), '') from spread`

/** What is not known yet counts as volatile. */
export class VolatileRelations {
  readonly #db: Pick<Db, 'fly'>
  readonly #known = new WeakMap<Schema, ReadonlySet<number> | 'loading'>()

  constructor(db: Pick<Db, 'fly'>) {
    this.#db = db
  }

  /** `oids` undefined: whether any relation is. */
  has(schema: Schema, oids: readonly number[] | undefined): boolean {
    const known = this.#known.get(schema)
    if (known === undefined) this.#load(schema)
    if (known === undefined || known === 'loading') return true
    return oids === undefined ? known.size > 0 : oids.some((oid) => known.has(oid))
  }

  #load(schema: Schema): void {
    this.#known.set(schema, 'loading')
    this.#db.fly(SYSTEM, VOLATILE).then(
      (text) => this.#known.set(schema, new Set((text ?? '').split(',').filter(Boolean).map(Number))),
      () => this.#known.delete(schema), // the next read tries again, on the primary
    )
  }
}
