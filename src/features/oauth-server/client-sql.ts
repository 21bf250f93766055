import { type Sql, sql } from '../../db/sql.ts'

export type Client = {
  id: string
  clientId: string
  appId: string | null
  name: string
  clientType: 'confidential' | 'public'
  redirectUris: string[]
  scopes: string[]
  secretHash: string | null
  revokedAt: Date | null
  origin: ClientOrigin
  /** Of a client that is a document: too old to be trusted without another look. */
  isStale: boolean
  postLogoutRedirectUris: string[]
  backchannelLogoutUri: string | null
}

/** Made by the operator; a document at the address that is its id; registered by itself (RFC 7591). */
export type ClientOrigin = 'operator' | 'document' | 'registered'

const columns = sql`c.id::text as id, c.client_id as "clientId", c.app_id::text as "appId", c.name,
  c.client_type as "clientType", c.redirect_uris as "redirectUris", c.scopes, c.secret_hash as "secretHash",
  c.revoked_at as "revokedAt", c.origin, coalesce(c.fetched_at < now() - interval '1 hour', false) as "isStale",
  c.post_logout_redirect_uris as "postLogoutRedirectUris", c.backchannel_logout_uri as "backchannelLogoutUri"`

export const clientNamed = (clientId: string): Sql =>
  sql`select ${columns} from svc.oauth_clients c where c.client_id = ${clientId}`

/** A client as the admin API shows it. */
const clientJson = sql`json_build_object(
  'id', c.id, 'appId', c.app_id, 'clientId', c.client_id, 'name', c.name, 'redirectUris', c.redirect_uris, 'scopes', c.scopes,
  'postLogoutRedirectUris', c.post_logout_redirect_uris, 'backchannelLogoutUri', c.backchannel_logout_uri,
  'clientType', c.client_type, 'createdAt', svc.iso_utc(c.created_at), 'updatedAt', svc.iso_utc(c.updated_at),
  'revokedAt', svc.iso_utc(c.revoked_at), 'totalGrants', c.total_grants,
  'lastTokenIssuedAt', svc.iso_utc(c.last_token_issued_at),
  'activeAccessTokenCount', (select count(*) from svc.oauth_access_tokens t join svc.oauth_grants g on g.id = t.grant_id
    where g.client = c.id and t.expires_at > now()),
  'activeRefreshTokenCount', (select count(*) from svc.oauth_refresh_tokens t join svc.oauth_grants g on g.id = t.grant_id
    where g.client = c.id and t.expires_at > now() and t.rotated_at is null))`

export const oneClient = (clientId: string): Sql =>
  sql`select ${clientJson}::text from svc.oauth_clients c where c.client_id = ${clientId}`

export const clientsPage = ({ page, perPage, offset }: { page: number; perPage: number; offset: number }): Sql => sql`
  select json_build_object(
    'items', (select coalesce(json_agg(${clientJson} order by c.created_at desc, c.id desc), '[]') from (
      select * from svc.oauth_clients order by created_at desc, id desc limit ${perPage} offset ${offset}) c),
    'page', ${page}::int, 'perPage', ${perPage}::int, 'totalItems', n.total,
    'totalPages', ceil(n.total::numeric / ${perPage}::int)::int)::text
  from (select count(*) as total from svc.oauth_clients) n`

/** What the operator says of a client. */
export type ClientSettings = Pick<
  Client,
  'name' | 'redirectUris' | 'scopes' | 'postLogoutRedirectUris' | 'backchannelLogoutUri'
>

export type NewClient = ClientSettings & Pick<Client, 'clientId' | 'clientType' | 'secretHash'> & { appId: string }

/** No row if the app does not exist. */
export const insertClient = (c: NewClient): Sql => sql`
  insert into svc.oauth_clients (client_id, app_id, name, client_type, secret_hash, redirect_uris, scopes,
    post_logout_redirect_uris, backchannel_logout_uri)
  select ${c.clientId}, a.id, ${c.name}, ${c.clientType}, ${c.secretHash}, ${c.redirectUris}::text[], ${c.scopes}::text[],
    ${c.postLogoutRedirectUris}::text[], ${c.backchannelLogoutUri}
  from svc.apps a where a.id = ${c.appId}::uuid for key share`

export const updateClient = (clientId: string, c: ClientSettings): Sql => sql`
  update svc.oauth_clients set name = ${c.name}, redirect_uris = ${c.redirectUris}::text[], scopes = ${c.scopes}::text[],
    post_logout_redirect_uris = ${c.postLogoutRedirectUris}::text[], backchannel_logout_uri = ${c.backchannelLogoutUri},
    updated_at = now()
  where client_id = ${clientId} and revoked_at is null`

export const replaceSecret = (clientId: string, hash: string): Sql => sql`
  update svc.oauth_clients set secret_hash = ${hash}, updated_at = now()
  where client_id = ${clientId} and revoked_at is null and client_type = 'confidential'`

export const isClient = (clientId: string): Sql => sql`c.client_id = ${clientId}`
export const isOfApp = (appId: string): Sql => sql`c.app_id = ${appId}::uuid`

export const endGrants = (condition: Sql): Sql =>
  sql`select id from svc.end_oauth_grants(array(select g.id from svc.oauth_grants g where ${condition})) id`

/**
 * Also ends the clients' grants, consents and unused codes. Two statements, so that the second sees what a redemption did
 * that the first waited for.
 */
export const revokeClients = (condition: Sql): readonly [Sql, Sql] => {
  const clients = sql`(select c.id from svc.oauth_clients c where ${condition})`
  return [
    sql`update svc.oauth_clients c set revoked_at = now(), updated_at = now() where ${condition} and c.revoked_at is null`,
    sql`with codes as (delete from svc.oauth_codes where client in ${clients}),
      consents as (delete from svc.oauth_consents where client in ${clients})
      ${endGrants(sql`g.client in ${clients}`)}`,
  ]
}

/** Keeps a client that came without the operator. A document that changed is the client's new self; a revoked one stays so. */
export const keepStranger = (c: Pick<Client, 'clientId' | 'name' | 'redirectUris' | 'scopes' | 'origin'>): Sql => sql`
  insert into svc.oauth_clients (client_id, name, client_type, redirect_uris, scopes, origin, fetched_at)
  values (${c.clientId}, ${c.name}, 'public', ${c.redirectUris}::text[], ${c.scopes}::text[], ${c.origin},
    case when ${c.origin} = 'document' then now() end)
  on conflict (client_id) do update set name = excluded.name, redirect_uris = excluded.redirect_uris,
    fetched_at = excluded.fetched_at, updated_at = now()
  where oauth_clients.origin = 'document' and excluded.origin = 'document'`

export type ClientRights = Pick<Client, 'scopes' | 'redirectUris' | 'clientType'>

/**
 * The rights of a client as they are now, as JSON, and until the transaction ends: it waits for a change of the client,
 * and a change waits for it. No row for a revoked one.
 */
export const lockClient = (id: string): Sql => sql`
  select json_build_object('scopes', c.scopes, 'redirectUris', c.redirect_uris, 'clientType', c.client_type)::text
  from svc.oauth_clients c where c.id = ${id}::uuid and c.revoked_at is null for no key update`

export const grantedScopes = (clientId: string): Sql => sql`
  select distinct g.scope from svc.oauth_grants g join svc.oauth_clients c on c.id = g.client where ${isClient(clientId)}`

export const endGrantsWithScopes = (clientId: string, scopes: readonly string[]): Sql =>
  endGrants(sql`g.scope = any(${scopes}::text[])
    and g.client = (select c.id from svc.oauth_clients c where ${isClient(clientId)})`)
