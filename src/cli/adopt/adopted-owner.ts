/** Owns everything that comes along, and can do nothing else. */
export const ADOPTED_OWNER = 'svc_adopted'

/**
 * Makes the role, refuses one of that name that may do more, and lets it refer to accounts. Since PostgreSQL 16 a role with
 * CREATEROLE administers the roles it made and may not act as them until it grants itself that.
 */
export const OWNER_STATEMENTS: readonly string[] = [
  `do $role$ begin
  if not exists (select from pg_catalog.pg_roles where rolname = '${ADOPTED_OWNER}') then
    create role ${ADOPTED_OWNER} nologin noinherit nosuperuser nocreatedb nocreaterole noreplication nobypassrls;
  end if;
exception when duplicate_object or unique_violation then null;
end $role$`,
  `do $role$ begin
  if exists (select from pg_catalog.pg_roles where rolname = '${ADOPTED_OWNER}' and (rolsuper or rolbypassrls or rolcreaterole or rolreplication)) then
    raise exception 'the role ${ADOPTED_OWNER} may do more than it should';
  end if;
  if pg_catalog.current_setting('server_version_num')::int < 160000 then
    if not pg_catalog.pg_has_role(current_user, '${ADOPTED_OWNER}', 'member') then
      execute pg_catalog.format('grant ${ADOPTED_OWNER} to %I', current_user);
    end if;
  elsif not (pg_catalog.pg_has_role(current_user, '${ADOPTED_OWNER}', 'set') and pg_catalog.pg_has_role(current_user, '${ADOPTED_OWNER}', 'usage')) then
    execute pg_catalog.format('grant ${ADOPTED_OWNER} to %I with inherit true, set true', current_user);
  end if;
end $role$`,
  `grant usage on schema svc to ${ADOPTED_OWNER}`,
  `grant references (id), select (id, email_verified_at) on svc.users to ${ADOPTED_OWNER}`,
]

export const helperSchema = (name: string): string =>
  `create schema if not exists ${name} authorization ${ADOPTED_OWNER}`

/** What stands at the beginning of migrations; `helpers`: the schema of helper functions, which is not exposed. */
export const ownerPrelude = (helpers: string): readonly string[] => [
  ...OWNER_STATEMENTS,
  `grant usage, create on schema public to ${ADOPTED_OWNER}`,
  helperSchema(helpers),
  `grant usage on schema ${helpers} to svc_anon, svc_authenticated`,
]
