import type pg from 'pg'
import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../db.ts'
import { sql } from '../sql.ts'

/** How code that came with an adopted database learns who calls; `named`: as early versions of Supabase did. */
type Dialect = 'claims' | 'named' | 'ayb'

const CALLER_ROLE = `case $1 when 'svc_anon' then 'anon' when 'svc_authenticated' then 'authenticated' else '' end`

/** Settings beside those of every request. The parameters are those of the session's statement, which sets the caller first. */
const SETTINGS: Readonly<Record<Dialect, readonly string[]>> = {
  claims: [`'request.jwt.claims',svc.jwt_claims()`],
  named: [
    `'request.jwt.claim.sub',$2`,
    `'request.jwt.claim.email',$3`,
    `'request.jwt.claim.role',${CALLER_ROLE}`,
    `'request.jwt.claims',svc.jwt_claims()`,
  ],
  ayb: [`'ayb.user_id',$2`, `'ayb.user_email',$3`],
}

/** The dialects of a database, shared by its pools; nearly always none. */
export class Dialects {
  /** Changes with every `use`, so that what was made of it is made again. */
  version = 0
  settings: readonly string[] = []
  /** Schemas behind the exposed ones on the search path: Supabase keeps extensions in one of their own. */
  path = ''

  use(dialects: readonly Dialect[]): void {
    const settings = [...new Set(dialects.flatMap((one) => SETTINGS[one]))]
    if (settings.join() === this.settings.join()) return
    this.settings = settings
    this.path = dialects.some((one) => one !== 'ayb') ? ', extensions' : ''
    this.version++
  }
}

const isDialect = (text: string): text is Dialect => Object.hasOwn(SETTINGS, text)

export async function dialectsOf(client: pg.Client): Promise<Dialects> {
  const { rows } = await client.query<{ key: string }>(`select key from svc.adopted where kind = 'dialect'`)
  const found = new Dialects()
  found.use(rows.map(({ key }) => key).filter(isDialect))
  return found
}

/** For a server that runs while its database is adopted. */
export async function refreshDialects(db: Db, dialects: Dialects): Promise<void> {
  const rows = await db.rows<{ key: string }>(SYSTEM, sql`select key from svc.adopted where kind = 'dialect'`)
  dialects.use(rows.map(({ key }) => key).filter(isDialect))
}
