import { type Sql, sql } from '../../../db/sql.ts'
import { MAX_LISTED } from './limits.ts'

export type PolicyRow = { command: string; permissive: boolean; using: string | null; check: string | null }
export type ChannelSurvey = {
  policies: PolicyRow[]
  /** Whether policies read tables, so that a write may change what they answer. */
  readsTables: boolean
  bans: [channel: string, userId: string][]
}

const ON_CHANNELS = sql`p.polrelid = 'svc.channels'::regclass`
const DEPENDS = sql`pg_policy p join pg_depend d on d.classid = 'pg_policy'::regclass and d.objid = p.oid`

/** Policies as they are now, and who is put out. Functions of svc that read a table read svc.members. */
export const surveyChannels: Sql = sql`
  select json_build_object('policies', (
      select coalesce(json_agg(json_build_object('command', p.polcmd, 'permissive', p.polpermissive,
        'using', pg_get_expr(p.polqual, p.polrelid), 'check', pg_get_expr(p.polwithcheck, p.polrelid)) order by p.polname), '[]')
      from pg_policy p where ${ON_CHANNELS} and (p.polroles @> '{0}'
        or exists (select from unnest(p.polroles) as o(oid) where pg_has_role('svc_authenticated', o.oid, 'USAGE')))),
    'readsTables', exists (select from ${DEPENDS} where ${ON_CHANNELS}
      and ((d.refclassid = 'pg_class'::regclass and d.refobjid <> p.polrelid)
        or (d.refclassid = 'pg_proc'::regclass and d.refobjid in (
          select f.oid from pg_proc f where f.pronamespace = 'svc'::regnamespace and f.proname in ('org_ids', 'org_role', 'claims'))))),
    'bans', (select coalesce(json_agg(json_build_array(channel, user_id)), '[]')
      from svc.channel_bans where ends_at > clock_timestamp()))::text`

export const readOnlyNow: Sql = sql`select pg_catalog.set_config('transaction_read_only', 'on', true)`

/** One letter per question, t or f; the milliseconds it took follow. Policies name the columns as those of `channels`. */
export const askPolicies = (questions: string, select: Sql, insert: Sql): Sql => sql`
  select coalesce(pg_catalog.string_agg(svc_answer.verdict, '' order by svc_answer.n), '') || '|' ||
    (extract(epoch from clock_timestamp() - statement_timestamp()) * 1000)::int
  from (
    select svc_e.svc_n as n, case when coalesce(
      case svc_e.svc_row ->> 'kind' when 'select' then (${select}) else (${insert}) end, false) then 't' else 'f' end as verdict
    from pg_catalog.jsonb_array_elements(${questions}::jsonb) with ordinality as svc_e(svc_row, svc_n),
      pg_catalog.jsonb_populate_record(null::svc.channels, svc_e.svc_row) as channels
  ) as svc_answer`

export const RELAY_CHANNEL = 'svc_channels'
export const notifyAll = (texts: readonly string[]): Sql =>
  sql`select count(pg_notify(${RELAY_CHANNEL}, t)) from unnest(${texts}::text[]) as t`

/** Seconds of silence after which a process counts as gone. */
const DEAD_AFTER = 3
const isDead = sql`seen_at < clock_timestamp() - make_interval(secs => ${DEAD_AFTER}::int)`

/** Says that this process is there. `isNew`: the others had given it up, or it is the first time. */
export const beat = (node: string): Sql => sql`
  with said as (
    insert into svc.channel_nodes as n (id, seen_at) values (${node}::uuid, clock_timestamp())
    on conflict (id) do update set seen_at = excluded.seen_at returning xmax = 0 as is_new
  )
  select json_build_object('isNew', (select is_new from said),
    'others', (select coalesce(json_agg(id), '[]') from svc.channel_nodes where id <> ${node}::uuid and not ${isDead}),
    'dead', (select coalesce(json_agg(id), '[]') from svc.channel_nodes where id <> ${node}::uuid and ${isDead}))::text`

export type MemberRow = { channel: string; ref: string; user_id: string | null; state: string; is_listed: boolean }
const MEMBERS = sql`coalesce(json_agg(m), '[]')::text`
const RETURNED = sql`returning m.channel, m.ref, m.user_id, m.state, m.is_listed`

/** Two processes do not give the last listed place away at once. In the order of names, so that they do not wait in a circle. */
export const lockChannels = (channels: readonly string[]): Sql => sql`
  select count(pg_advisory_xact_lock(hashtextextended('svc.channels ' || c, 0)))
  from (select distinct c from unnest(${channels}::text[]) as c order by c) as o`

export const removeMembers = (channels: readonly string[], refs: readonly string[]): Sql => sql`
  with m as (delete from svc.channel_members m using unnest(${channels}::text[], ${refs}::uuid[]) as g(channel, ref)
    where m.channel = g.channel and m.ref = g.ref ${RETURNED})
  select ${MEMBERS} from m`

export const removeNodes = (nodes: readonly string[], evenAlive = false): Sql => sql`
  with n as (delete from svc.channel_nodes where id = any(${nodes}::uuid[]) and (${evenAlive} or ${isDead}) returning id),
    m as (delete from svc.channel_members m using n where m.node = n.id ${RETURNED})
  select ${MEMBERS} from m`

export const addMembers = (
  node: string,
  rows: readonly Pick<MemberRow, 'channel' | 'ref' | 'user_id' | 'state'>[],
): Sql => sql`
  with m as (
    insert into svc.channel_members as m (channel, ref, node, user_id, state, is_listed)
    select g.channel, g.ref, ${node}::uuid, g.user_id, g.state,
      (select count(*) from svc.channel_members o where o.channel = g.channel and o.is_listed)
        + row_number() over (partition by g.channel order by g.n) <= ${MAX_LISTED}::int
    from unnest(${rows.map((row) => row.channel)}::text[], ${rows.map((row) => row.ref)}::uuid[],
      ${rows.map((row) => row.user_id)}::uuid[], ${rows.map((row) => row.state)}::text[])
      with ordinality as g(channel, ref, user_id, state, n)
    on conflict (channel, ref) do update set state = excluded.state, node = excluded.node ${RETURNED})
  select ${MEMBERS} from m`

export const changeStates = (rows: readonly Pick<MemberRow, 'channel' | 'ref' | 'state'>[]): Sql => sql`
  with m as (
    update svc.channel_members m set state = g.state
    from unnest(${rows.map((row) => row.channel)}::text[], ${rows.map((row) => row.ref)}::uuid[],
      ${rows.map((row) => row.state)}::text[]) as g(channel, ref, state)
    where m.channel = g.channel and m.ref = g.ref ${RETURNED})
  select ${MEMBERS} from m`

export const countPresent = (channels: readonly string[]): Sql => sql`
  select coalesce(json_object_agg(c, (select count(*) from svc.channel_members m where m.channel = c)), '{}')::text
  from (select distinct c from unnest(${channels}::text[]) as c) as o`

export const listMembers = (channels: readonly string[]): Sql => sql`
  select ${MEMBERS} from svc.channel_members m where m.channel = any(${channels}::text[]) and m.is_listed`

/** The largest channels with some of their members, as an administrator sees them. */
export const presentNow = (channels: number, members: number): Sql => sql`
  with alive as (
    select m.* from svc.channel_members m join svc.channel_nodes n on n.id = m.node and not ${isDead}),
  largest as (select channel, count(*) as n from alive group by channel order by n desc, channel limit ${channels}::int)
  select coalesce(json_agg(json_build_object('channel', c.channel, 'count', c.n, 'members', (
      select coalesce(json_agg(json_build_object('user_id', o.user_id, 'email', u.email, 'state', left(o.state, 1000))), '[]')
      from (select a.user_id, a.state from alive a where a.channel = c.channel order by a.ref limit ${members}::int) as o
        left join svc.users u on u.id = o.user_id)) order by c.n desc, c.channel), '[]')::text
  from largest c`

const BAN_SECONDS = 600
/** With RETURNING, for the audit. */
export const banMember = (channel: string, userId: string): Sql => sql`
  insert into svc.channel_bans (channel, user_id, ends_at)
  values (${channel}, ${userId}::uuid, clock_timestamp() + make_interval(secs => ${BAN_SECONDS}::int))
  on conflict (channel, user_id) do update set ends_at = excluded.ends_at returning user_id, ends_at`
export const removeEndedBans: Sql = sql`delete from svc.channel_bans where ends_at < clock_timestamp()`

/** Takes up to `many` of a caller's messages in this second; how many it took, and the seconds that are left of it. */
export const takeMessages = (key: string, many: number, max: number): Sql => sql`
  with c as (
    insert into svc.rate_counters as c (key, count, ends_at)
    values (${key}, ${many}::int, clock_timestamp() + interval '1 second')
    on conflict (key) do update set
      count = case when c.ends_at <= clock_timestamp() then excluded.count else least(c.count, 2000000000) + excluded.count end,
      ends_at = case when c.ends_at <= clock_timestamp() then excluded.ends_at else c.ends_at end
    returning count, ends_at)
  select json_build_object('taken', greatest(0, ${many}::int - greatest(0, count - ${max}::int)),
    'ms', greatest(0, extract(epoch from ends_at - clock_timestamp()) * 1000))::text from c`
