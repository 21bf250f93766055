import type { UserIdentity } from '../../core/identity.ts'
import { type Sql, sql } from '../../db/sql.ts'
import type { RemoveSlice } from '../../db/sweep.ts'
import type { AuthorizationRequest } from './authorization-request.ts'
import { type Client, endGrants } from './client-sql.ts'
import type { SignInFacts } from './openid.ts'

// Consent and codes

export const isConsented = (userId: string, client: Client, request: AuthorizationRequest): Sql => sql`
  select from svc.oauth_consents where user_id = ${userId}::uuid and client = ${client.id}::uuid
    and redirect_uri = ${request.redirectUri} and scope = ${request.scope} and tables = ${request.tables}::text[]
    and resource = ${request.resource} and (until is null or until > now())`

/** What the user chose for an agent, and a client cannot ask for. */
export type Terms = {
  /** Rows an hour that need no second step; null: every write has two. */
  readonly auto: number | null
  /** Every write waits for the user. */
  readonly release: boolean
  /** RFC 3339; null: no end. */
  readonly until: string | null
}
export const NO_TERMS: Terms = { auto: null, release: false, until: null }

export const termsOf = (userId: string, client: Client, request: AuthorizationRequest): Sql => sql`
  select json_build_object('auto', c.auto, 'release', c.release, 'until', c.until)::text
  from (${isConsented(userId, client, request)}) found, svc.oauth_consents c
  where c.user_id = ${userId}::uuid and c.client = ${client.id}::uuid and c.redirect_uri = ${request.redirectUri}
    and c.scope = ${request.scope} and c.tables = ${request.tables}::text[] and c.resource = ${request.resource}`

export const rememberConsent = (userId: string, client: Client, request: AuthorizationRequest, t: Terms): Sql => sql`
  insert into svc.oauth_consents (user_id, client, redirect_uri, scope, tables, resource, auto, release, until)
  values (${userId}::uuid, ${client.id}::uuid, ${request.redirectUri}, ${request.scope}, ${request.tables}::text[],
    ${request.resource}, ${t.auto}::int, ${t.release}::boolean, ${t.until}::timestamptz)
  on conflict (user_id, client, redirect_uri, scope, tables, resource) do update set created_at = now(),
    auto = excluded.auto, release = excluded.release, until = excluded.until`

const forgetOldest = (table: Sql, age: Sql, userId: string, keep: number): Sql => sql`
  delete from ${table} where ctid = any(array(
    select ctid from ${table} where user_id = ${userId}::uuid order by ${age} desc offset ${keep}::int))`

/** A user keeps the latest ones; who is forgotten is asked again. */
export const forgetConsents = (userId: string, keep: number): Sql =>
  forgetOldest(sql`svc.oauth_consents`, sql`created_at`, userId, keep)

export const forgetCodes = (userId: string, keep: number): Sql =>
  forgetOldest(sql`svc.oauth_codes`, sql`expires_at`, userId, keep)

export const insertCode = (
  hash: string,
  user: Pick<UserIdentity, 'id' | 'sessionId' | 'aal' | 'amr'>,
  client: Client,
  request: AuthorizationRequest,
  terms: Terms,
  seconds: number,
): Sql => sql`
  insert into svc.oauth_codes (hash, client, user_id, redirect_uri, challenge, scope, tables, resource, auto, release, until,
    expires_at, nonce, session_id, auth_time, aal, amr)
  values (${hash}, ${client.id}::uuid, ${user.id}::uuid, ${request.redirectUri}, ${request.challenge}, ${request.scope},
    ${request.tables}::text[], ${request.resource}, ${terms.auto}::int, ${terms.release}::boolean,
    ${terms.until}::timestamptz, now() + make_interval(secs => ${seconds}::int), ${request.nonce},
    ${user.sessionId}::uuid, (select s.created_at from svc.sessions s where s.id = ${user.sessionId}::uuid), ${user.aal},
    ${user.amr}::text[])`

/** Null for what was granted before sign-ins were kept. */
const signInOf = (of: Sql): Sql => sql`case when ${of}.auth_time is not null then json_build_object(
  'sessionId', ${of}.session_id, 'authTime', floor(extract(epoch from ${of}.auth_time)), 'aal', ${of}.aal,
  'amr', ${of}.amr) end as "signIn"`

export type Code = Terms & {
  client: string
  userId: string
  redirectUri: string
  challenge: string
  scope: string
  tables: string[]
  resource: string
  isUsed: boolean
  grantId: string | null
  nonce: string | null
  signIn: SignInFacts | null
}

/** Locks the code until its redemption commits: of parallel ones only the first finds it unused. */
export const lockCode = (hash: string): Sql => sql`
  select client::text, user_id::text as "userId", redirect_uri as "redirectUri", challenge, scope, tables,
    resource, auto, release, svc.iso_utc(until) as until, used_at is not null as "isUsed", grant_id::text as "grantId",
    nonce, ${signInOf(sql`c`)}
  from svc.oauth_codes c where hash = ${hash} and expires_at > now() for update`

export const spendCode = (hash: string, grantId: string): Sql =>
  sql`update svc.oauth_codes set used_at = now(), grant_id = ${grantId}::uuid where hash = ${hash}`

// Grants and tokens

export type NewGrant = {
  id: string
  client: string
  userId: string | null
  scope: string
  tables: readonly string[]
  resource: string
  terms: Terms
  signIn: SignInFacts | null
}

export const insertGrant = (g: NewGrant): Sql => sql`
  insert into svc.oauth_grants (id, client, user_id, scope, tables, resource, auto, release, until, session_id,
    auth_time, aal, amr)
  values (${g.id}::uuid, ${g.client}::uuid, ${g.userId}::uuid, ${g.scope}, ${g.tables}::text[], ${g.resource},
    ${g.terms.auto}::int, ${g.terms.release}::boolean, ${g.terms.until}::timestamptz, ${g.signIn?.sessionId ?? null}::uuid,
    to_timestamp(${g.signIn?.authTime ?? null}::float8), ${g.signIn?.aal ?? null}, ${g.signIn?.amr ?? null}::text[])`

/** No row if the session has ended. */
export const keepLogin = (sessionId: string, client: string, userId: string): Sql => sql`
  insert into svc.oauth_logins (session_id, client, user_id)
  select s.id, ${client}::uuid, s.user_id from svc.sessions s
  where s.id = ${sessionId}::uuid and s.user_id = ${userId}::uuid
  on conflict (session_id, client) do update set created_at = now()`

/** `seconds`: until the user's chosen end of the grant; null where there is none. */
export type GrantState = { seconds: number | null; isDisabled: boolean }

export const grantState = (grantId: string): Sql => sql`
  select floor(extract(epoch from g.until - now()))::float8 as seconds, u.disabled_at is not null as "isDisabled"
  from svc.oauth_grants g left join svc.users u on u.id = g.user_id where g.id = ${grantId}::uuid`

export const countGrant = (client: string, isCodeGrant: boolean): Sql => sql`
  update svc.oauth_clients set last_token_issued_at = now(), total_grants = total_grants + ${isCodeGrant ? 1 : 0}::int
  where id = ${client}::uuid`

export const insertAccessToken = (t: { id: string; hash: string; grantId: string; seconds: number }): Sql => sql`
  insert into svc.oauth_access_tokens (id, hash, grant_id, expires_at)
  values (${t.id}::uuid, ${t.hash}, ${t.grantId}::uuid, now() + make_interval(secs => ${t.seconds}::int))`

export const insertRefreshToken = (t: { hash: string; grantId: string; seconds: number }): Sql => sql`
  insert into svc.oauth_refresh_tokens (hash, grant_id, expires_at)
  values (${t.hash}, ${t.grantId}::uuid, now() + make_interval(secs => ${t.seconds}::int))`

export type RefreshToken = {
  grantId: string
  client: string
  userId: string | null
  scope: string
  resource: string
  isRotated: boolean
  signIn: SignInFacts | null
}

export const lockRefreshToken = (hash: string): Sql => sql`
  select t.grant_id::text as "grantId", g.client::text, g.user_id::text as "userId", g.scope, g.resource,
    t.rotated_at is not null as "isRotated", ${signInOf(sql`g`)}
  from svc.oauth_refresh_tokens t join svc.oauth_grants g on g.id = t.grant_id
  where t.hash = ${hash} and t.expires_at > now() for update of t`

export const rotate = (hash: string): Sql =>
  sql`update svc.oauth_refresh_tokens set rotated_at = now() where hash = ${hash}`

/** Returns the ended tokens, so that this process can drop them from its cache. */
export const endGrant = (id: string): Sql => endGrants(sql`g.id = ${id}::uuid`)

const forgetClients = (userId: string, client: Sql): Sql => sql`
  with consents as (delete from svc.oauth_consents where user_id = ${userId}::uuid and ${client}),
  codes as (delete from svc.oauth_codes where user_id = ${userId}::uuid and ${client}),
  devices as (delete from svc.oauth_device_codes where user_id = ${userId}::uuid and ${client})`

export const endGrantsOf = (userId: string): Sql =>
  sql`${forgetClients(userId, sql`true`)} ${endGrants(sql`g.user_id = ${userId}::uuid`)}`

/** All but the latest grants of a user to a client. */
export const endOldGrants = (userId: string, client: string, keep: number): Sql =>
  endGrants(sql`g.id in (
    select o.id from svc.oauth_grants o where o.user_id = ${userId}::uuid and o.client = ${client}::uuid
    order by o.created_at desc, o.id offset ${keep}::int)`)

/** What a user sees of a grant. */
export const grantsOf = (userId: string): Sql => sql`
  select coalesce(json_agg(json_build_object('id', g.id, 'client_id', c.client_id, 'client_name', c.name, 'scope', g.scope,
    'allowed_tables', g.tables, 'created_at', svc.iso_utc(g.created_at)) order by g.created_at desc, g.id), '[]')::text
  from svc.oauth_grants g join svc.oauth_clients c on c.id = g.client
  where g.user_id = ${userId}::uuid and (
    exists (select from svc.oauth_refresh_tokens t where t.grant_id = g.id and t.expires_at > now() and t.rotated_at is null)
    or exists (select from svc.oauth_access_tokens t where t.grant_id = g.id and t.expires_at > now()))`

export const clientOfGrant = (id: string, userId: string): Sql =>
  sql`select client::text from svc.oauth_grants where id = ${id}::uuid and user_id = ${userId}::uuid`

/** The client has to ask again: its consents and unused codes of this user go with the grant. */
export const withdrawGrant = (id: string, userId: string, client: string): Sql =>
  sql`${forgetClients(userId, sql`client = ${client}::uuid`)} ${endGrants(sql`g.id = ${id}::uuid`)}`

export const endAccessToken = (hash: string, client: string | null): Sql => sql`
  with gone as (
    delete from svc.oauth_access_tokens t using svc.oauth_grants g
    where t.hash = ${hash} and g.id = t.grant_id and (${client}::uuid is null or g.client = ${client}::uuid)
    returning t.id::text
  )
  select gone.id, svc.revoke('oauth_token', gone.id) from gone`

export const userOfCode = (hash: string): Sql => sql`select user_id from svc.oauth_codes where hash = ${hash}`

export const userOfRefreshToken = (hash: string): Sql => sql`
  select g.user_id from svc.oauth_refresh_tokens t join svc.oauth_grants g on g.id = t.grant_id where t.hash = ${hash}`

export const grantOfRefreshToken = (hash: string, client: string | null): Sql => sql`
  select t.grant_id::text as id from svc.oauth_refresh_tokens t join svc.oauth_grants g on g.id = t.grant_id
  where t.hash = ${hash} and (${client}::uuid is null or g.client = ${client}::uuid)`

/** In slices that pass over rows which others hold: nothing that ends access waits for a cleanup. */
const dropUnheld =
  (table: Sql, isOver: Sql): RemoveSlice =>
  (limit) =>
    sql`
    delete from ${table} where ctid = any(array(
      select ctid from ${table} g where ${isOver} limit ${limit}::int for update skip locked))`

const isExpired = sql`g.expires_at < now()`

/** Also removes grants without tokens; a new grant gets its tokens in the same transaction. */
export const dropExpired: readonly RemoveSlice[] = [
  dropUnheld(sql`svc.oauth_codes`, isExpired),
  dropUnheld(sql`svc.oauth_pushed`, isExpired),
  dropUnheld(sql`svc.oauth_prompts`, isExpired),
  dropUnheld(sql`svc.oauth_device_codes`, isExpired),
  dropUnheld(sql`svc.oauth_device_misses`, isExpired),
  dropUnheld(sql`svc.oauth_access_tokens`, isExpired),
  dropUnheld(sql`svc.oauth_refresh_tokens`, isExpired),
  dropUnheld(
    sql`svc.oauth_grants`,
    sql`g.created_at < now() - interval '1 hour'
      and not exists (select from svc.oauth_access_tokens t where t.grant_id = g.id)
      and not exists (select from svc.oauth_refresh_tokens t where t.grant_id = g.id)`,
  ),
  dropUnheld(sql`svc.oauth_consents`, sql`g.created_at < now() - interval '180 days' or g.until < now()`),
  // Strangers that have nothing.
  dropUnheld(
    sql`svc.oauth_clients`,
    sql`g.origin <> 'operator' and g.revoked_at is null and g.created_at < now() - interval '1 day'
      and not exists (select from svc.oauth_grants o where o.client = g.id)
      and not exists (select from svc.oauth_consents o where o.client = g.id)
      and not exists (select from svc.oauth_codes o where o.client = g.id)`,
  ),
]
