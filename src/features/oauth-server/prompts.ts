import { ON_BEHALF, type UserIdentity } from '../../core/identity.ts'
import { randomToken, sha256 } from '../../core/secret.ts'
import type { Db } from '../../db/db.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { usedBefore } from './errors.ts'

const SECONDS = 600
/** Of a user; the oldest make room. */
const MAX_PROMPTS = 100

type PromptKind = 'consent' | 'logout'

const keepPrompt = (hash: string, kind: PromptKind, user: UserIdentity, request: object): [Sql, Sql] => [
  sql`insert into svc.oauth_prompts (hash, kind, user_id, session_id, request, expires_at)
    select ${hash}, ${kind}, s.user_id, s.id, ${JSON.stringify(request)}::jsonb, now() + make_interval(secs => ${SECONDS}::int)
    from svc.sessions s where s.id = ${user.sessionId}::uuid and s.user_id = ${user.id}::uuid`,
  sql`delete from svc.oauth_prompts where ctid = any(array(
    select ctid from svc.oauth_prompts where user_id = ${user.id}::uuid order by expires_at desc offset ${MAX_PROMPTS}::int))`,
]

const isPrompt = (hash: string, kind: PromptKind, user: UserIdentity): Sql => sql`hash = ${hash} and kind = ${kind}
  and user_id = ${user.id}::uuid and session_id = ${user.sessionId}::uuid and expires_at > now()`

/**
 * What a page showed to a browser that is signed in by its cookie. Another site can make the browser send the cookie, but not
 * the form token that the page was given, which is good once and for exactly what was shown.
 */
export class Prompts {
  readonly #db: Db

  constructor(db: Db) {
    this.#db = db
  }

  /** The form token. */
  async keep(kind: PromptKind, user: UserIdentity, request: object): Promise<string> {
    const token = randomToken()
    await this.#db.run(ON_BEHALF, keepPrompt(sha256(token), kind, user, request))
    return token
  }

  /** What was shown, and the statement that spends the token. */
  async read<Shown>(kind: PromptKind, user: UserIdentity, token: unknown): Promise<{ shown: Shown; spend: Sql }> {
    const condition = typeof token === 'string' ? isPrompt(sha256(token), kind, user) : undefined
    const text = condition
      ? await this.#db.fly(ON_BEHALF, sql`select request::text from svc.oauth_prompts where ${condition}`)
      : null
    if (condition === undefined || text === null) throw usedBefore()
    return { shown: JSON.parse(text), spend: sql`delete from svc.oauth_prompts where ${condition}` }
  }
}
