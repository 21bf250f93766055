import { rfc3339, type Sql, sql } from '../../db/sql.ts'
import type { RemoveSlice } from '../../db/sweep.ts'

export const findAgent = (userId: string, client: string): Sql =>
  sql`select id::text from svc.agents where user_id = ${userId}::uuid and client = ${client}`

export const makeAgent = (userId: string, client: string, clientId: string): Sql => sql`
  insert into svc.agents (user_id, client, client_id) values (${userId}::uuid, ${client}, ${clientId})
  on conflict (user_id, client) do update set client_id = excluded.client_id returning id::text`

/** Writes nothing where it is so already. */
export const beginQuarantine = (agentId: string): Sql => sql`
  update svc.agents set quarantined_at = now(), generation = generation + 1
  where id = ${agentId}::uuid and quarantined_at is null`

export const endQuarantine = (agentId: string, userId: string): Sql => sql`
  update svc.agents set quarantined_at = null, generation = generation + 1
  where id = ${agentId}::uuid and user_id = ${userId}::uuid`

export const agentsOf = (userId: string): Sql => sql`
  select coalesce(json_agg(json_build_object('id', a.id, 'client_id', a.client_id, 'quarantined', a.quarantined_at is not null,
    'pending', (select coalesce(json_agg(json_build_object('id', p.id, 'tool', p.tool, 'counts', p.counts::json) order by p.created_at, p.id), '[]')
      from svc.agent_pending p where p.agent = a.id and p.expires_at > now())) order by a.created_at, a.id), '[]')::text
  from svc.agents a where a.user_id = ${userId}::uuid`

export type NewPending = {
  agentId: string
  grantId: string | null
  keyId: string
  tool: string
  args: string
  digest: string
  changes: string
  counts: string
}

/** One user's writes wait one after the other, so that none slips past the bounds below. */
const lockAgentUser = (agentId: string): Sql =>
  sql`select u.id::text from svc.users u join svc.agents a on a.user_id = u.id where a.id = ${agentId}::uuid for no key update of u`

/** No row when too many wait already, of this agent or in bytes of all agents of the user. */
export const insertPending = (p: NewPending, most: number, mostBytes: number): readonly [Sql, Sql] => [
  lockAgentUser(p.agentId),
  sql`insert into svc.agent_pending (agent, grant_id, key_id, tool, args, digest, changes, counts)
  select a.id, ${p.grantId}::uuid, ${p.keyId}, ${p.tool}, ${p.args}, ${p.digest}, ${p.changes}, ${p.counts}
  from svc.agents a where a.id = ${p.agentId}::uuid
    and (select count(*) from svc.agent_pending o where o.agent = a.id and o.expires_at > now()) < ${most}::int
    and (select coalesce(sum(octet_length(o.args) + octet_length(o.changes)), 0) from svc.agent_pending o
      join svc.agents b on b.id = o.agent where b.user_id = a.user_id and o.expires_at > now()) < ${mostBytes}::int
  returning id::text`,
]

export const showPending = (id: string, userId: string): Sql => sql`
  select json_build_object('id', p.id, 'tool', p.tool, 'client_id', a.client_id, 'counts', p.counts::json,
    'changes', p.changes::json, 'expires_at', ${rfc3339(sql`p.expires_at`)})::text
  from svc.agent_pending p join svc.agents a on a.id = p.agent
  where p.id = ${id}::uuid and a.user_id = ${userId}::uuid and p.expires_at > now()`

export type Pending = {
  id: string
  agentId: string
  tool: string
  args: string
  digest: string
  /** Of the grant or key as it is now; null when it has ended. */
  scope: string | null
  tables: string[]
  appId: string | null
  email: string
  clientId: string
  client: string
  grantId: string | null
  keyId: string
}

export const findPending = (id: string, userId: string): Sql => sql`
  select p.id::text, p.agent::text as "agentId", p.tool, p.args, p.digest, coalesce(u.email, '') as email, a.client_id as "clientId",
    a.client, p.grant_id::text as "grantId", p.key_id as "keyId", coalesce(g.scope, k.scope) as scope,
    coalesce(g.tables, k.allowed_tables, '{}') as tables, coalesce(c.app_id, k.app_id)::text as "appId"
  from svc.agent_pending p join svc.agents a on a.id = p.agent join svc.users u on u.id = a.user_id
  left join svc.oauth_grants g on g.id = p.grant_id and (g.until is null or g.until > now())
  left join svc.oauth_clients c on c.id = g.client
  left join svc.api_keys k on p.grant_id is null and k.id::text = p.key_id and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > now())
  where p.id = ${id}::uuid and a.user_id = ${userId}::uuid and p.expires_at > now() and u.disabled_at is null`

export const dropAgentPending = (id: string, userId: string): Sql => sql`
  delete from svc.agent_pending p using svc.agents a
  where a.id = p.agent and a.user_id = ${userId}::uuid and p.id = ${id}::uuid and p.expires_at > now()`

export type AgentState = { isQuarantined: boolean; generation: string; rows: number }

export const agentState = (key: string, agentId: string): Sql =>
  sql`select svc.agent_state(${key}, ${agentId}::uuid)::text`

export type Commit = {
  key: string
  agentId: string
  requestId: string
  rows: number
  most: number
  isFinal: boolean
  heedsQuarantine: boolean
  generation: string | null
  nonce: string | null
  pendingId: string | null
  grantId: string | null
  apiKeyId: string | null
  entry: unknown
}
export type CommitVerdict = 'ok' | 'quarantined' | 'over' | 'spent' | 'ended'

export const agentCommit = (c: Commit): Sql => sql`
  select svc.agent_commit(${c.key}, ${c.agentId}::uuid, ${c.requestId}, ${c.rows}::int, ${c.most}::int, ${c.isFinal}::boolean,
    ${c.heedsQuarantine}::boolean, ${c.generation}::bigint, ${c.nonce}, ${c.pendingId}::uuid, ${c.grantId}::uuid,
    ${c.apiKeyId}::uuid, ${JSON.stringify(c.entry)}::jsonb)`

export type WrittenRows = { oid: number; made: number; changed: number; removed: number; seen: number }

export const writtenRows = (key: string): Sql => sql`
  select table_oid::pg_catalog.int8::pg_catalog.float8 as oid, made::pg_catalog.float8 as made, changed::pg_catalog.float8 as changed,
    removed::pg_catalog.float8 as removed, seen::pg_catalog.float8 as seen from svc.used_rows(${key})`

export const wordsOfCode = (tables: readonly number[]): Sql =>
  sql`select svc.words_of_code(${tables.map(String)}::oid[])`

/** Whether a write may have read what no table of the database holds. */
export const readsElsewhere = (functions: readonly number[], tables: readonly number[]): Sql =>
  sql`select svc.reads_elsewhere(${functions.map(String)}::oid[], ${tables.map(String)}::oid[])::text`

const milliseconds = (moment: Sql): Sql =>
  sql`pg_catalog.round(extract(epoch from ${moment}) * 1000, 3)::pg_catalog.float8`

/** Of a transaction: its moment, the tables that it locked whole, and which columns the database itself fills, some of them with what. */
export const aboutWrite = (key: string, oids: readonly number[]): Sql => sql`
  select pg_catalog.json_build_object('begun', ${milliseconds(sql`pg_catalog.now()`)}, 'now', ${milliseconds(sql`pg_catalog.clock_timestamp()`)},
    'locked', svc.locked_tables(${key})::pg_catalog.int8[], 'columns', svc.made_columns(${key}, ${oids.map(String)}::pg_catalog.oid[]),
    'defaults', svc.present_defaults(${oids.map(String)}::pg_catalog.oid[]))::text`

/** Whether functions, or triggers of these tables, may do at once what no rollback takes back. */
export const actsAtOnce = (functions: readonly number[], tables: readonly number[]): Sql => sql`
  select svc.acts_at_once(${functions.map(String)}::pg_catalog.oid[], ${tables.map(String)}::pg_catalog.oid[])::text`

/** Whether code of other rights may have written: the function itself, a trigger of these tables, or what they call. */
export const runsDefiner = (functions: readonly number[], tables: readonly number[]): Sql => sql`
  select svc.runs_definer(${functions.map(String)}::pg_catalog.oid[], ${tables.map(String)}::pg_catalog.oid[])::text`

/** Whether an agent in quarantine is about to run code that reaches outside, which no rollback takes back. */
export const leaksOutside = (agentId: string, functions: readonly number[], tables: readonly number[]): Sql => sql`
  select case when a.quarantined_at is null then false
    else svc.reaches_outside(${functions.map(String)}::oid[], ${tables.map(String)}::oid[]) end::text
  from svc.agents a where a.id = ${agentId}::uuid`

export type OwnWrite = { xid: string; isFinal: boolean }

export const writeByAgent = (agentId: string, requestId: string): Sql => sql`
  select xid::text, is_final as "isFinal" from svc.agent_writes where agent = ${agentId}::uuid and request_id = ${requestId}`

export const othersWrite = (oid: number): Sql => sql`select svc.written_by_others(${oid}::oid)::text`

/** Entries of the audit trail, as a JSON array. */
export const insertTraces = (entries: string): Sql => sql`
  insert into svc.audit_log (actor, action, target, user_id, api_key_id, new_values, ip_address)
  select 'user', e ->> 'action', e ->> 'target', (e ->> 'userId')::uuid, (e ->> 'keyId')::uuid, e -> 'values', nullif(e ->> 'ip', '')
  from jsonb_array_elements(${entries}::jsonb) as e`

const dropOld =
  (table: Sql, isOver: Sql): RemoveSlice =>
  (limit) =>
    sql`delete from ${table} where ctid = any(array(select ctid from ${table} o where ${isOver} limit ${limit}::int for update skip locked))`

export const expiredOfAgents: readonly RemoveSlice[] = [
  dropOld(sql`svc.agent_pending`, sql`o.expires_at < now()`),
  dropOld(sql`svc.agent_confirmed`, sql`o.expires_at < now()`),
  dropOld(sql`svc.agent_writes`, sql`o.at < now() - interval '90 days'`),
  dropOld(
    sql`svc.agents`,
    sql`o.created_at < now() - interval '90 days' and not exists (select from svc.agent_writes w where w.agent = o.id)
      and not exists (select from svc.agent_pending p where p.agent = o.id)
      and not exists (select from svc.oauth_grants g where g.user_id = o.user_id and g.client::text = o.client)
      and not exists (select from svc.api_keys k where k.id::text = o.client)`,
  ),
]
