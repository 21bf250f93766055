import { ON_BEHALF, type UserIdentity } from '../../core/identity.ts'
import { equalInConstantTime, hmacSha256 } from '../../core/secret.ts'
import { isUuid } from '../../core/uuid.ts'
import type { Db } from '../../db/db.ts'
import { type Sql, sql } from '../../db/sql.ts'

/** RFC 6265bis, section 4.1.3.2: no other host of the domain can set it. Browsers take it over https and on localhost. */
const NAME = '__Host-svc_session'
const KEPT = 'Path=/; Secure; HttpOnly; SameSite=Lax'

const sessionRow = (id: string): Sql => sql`
  select u.id::text, coalesce(u.email, '') as email, s.aal, to_json(s.amr) as amr,
    floor(extract(epoch from s.expires_at))::float8 as "expiresAt"
  from svc.sessions s join svc.users u on u.id = s.user_id
  where s.id = ${id}::uuid and s.expires_at > now() and u.disabled_at is null and not u.is_anonymous`

const sessionAge = (id: string): Sql =>
  sql`select extract(epoch from now() - created_at)::text from svc.sessions where id = ${id}::uuid`

/**
 * The browser's session at the pages of this server, for single sign-on: a cookie that names a session of the user and ends
 * with it. It is read by the pages alone and is no bearer.
 */
export class BrowserSessions {
  readonly #db: Db
  readonly #key: Buffer

  constructor(deps: { db: Db; key: Buffer }) {
    this.#db = deps.db
    this.#key = deps.key
  }

  /** The Set-Cookie of a session. */
  cookieOf(sessionId: string): string {
    return `${NAME}=${sessionId}.${this.#mark(sessionId)}; ${KEPT}`
  }

  readonly noCookie: string = `${NAME}=; ${KEPT}; Max-Age=0`

  async userOf(cookies: string | undefined): Promise<UserIdentity | undefined> {
    const sessionId = this.#sessionOf(cookies)
    if (sessionId === undefined) return undefined
    type Row = Pick<UserIdentity, 'id' | 'email' | 'aal' | 'amr' | 'expiresAt'>
    const [row] = await this.#db.rows<Row>(ON_BEHALF, sessionRow(sessionId))
    return row && { kind: 'user', ...row, sessionId, isAnonymous: false }
  }

  /** Seconds since the sign-in; undefined for a session that has ended. */
  async ageOf(sessionId: string): Promise<number | undefined> {
    const age = await this.#db.fly(ON_BEHALF, sessionAge(sessionId))
    return age === null ? undefined : Number(age)
  }

  #sessionOf(cookies: string | undefined): string | undefined {
    const given = (cookies ?? '').split(';').map((pair) => pair.trim().split('='))
    const [sessionId = '', mark = ''] = (given.find(([name]) => name === NAME)?.[1] ?? '').split('.')
    return isUuid(sessionId) && equalInConstantTime(mark, this.#mark(sessionId)) ? sessionId : undefined
  }

  #mark(sessionId: string): string {
    return hmacSha256(this.#key, sessionId).toString('base64url')
  }
}
