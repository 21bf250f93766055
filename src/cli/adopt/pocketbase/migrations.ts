import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TargetSchema } from './schema.ts'
import { ADOPTED_OWNER, HELPERS } from './sql-functions.ts'
import type { Statement } from './statements.ts'

/** The role that owns what comes along, and what it may do with objects of ours. */
export const PRELUDE: readonly string[] = [
  `do $role$ begin
  if not exists (select from pg_catalog.pg_roles where rolname = '${ADOPTED_OWNER}') then
    create role ${ADOPTED_OWNER} nologin noinherit nosuperuser nocreatedb nocreaterole noreplication nobypassrls;
  end if;
  if exists (select from pg_catalog.pg_roles where rolname = '${ADOPTED_OWNER}' and (rolsuper or rolbypassrls or rolcreaterole or rolreplication)) then
    raise exception 'the role ${ADOPTED_OWNER} may do more than it should';
  end if;
exception when duplicate_object or unique_violation then null;
end $role$`,
  `do $member$ begin
  if not pg_catalog.pg_has_role(current_user, '${ADOPTED_OWNER}', 'member') then execute pg_catalog.format('grant ${ADOPTED_OWNER} to %I', current_user); end if;
end $member$`,
  `grant usage on schema svc to ${ADOPTED_OWNER}`,
  `grant references (id), select (id, email_verified_at) on svc.users to ${ADOPTED_OWNER}`,
  `grant usage, create on schema public to ${ADOPTED_OWNER}`,
  `create schema if not exists ${HELPERS} authorization ${ADOPTED_OWNER}`,
  `grant usage on schema ${HELPERS} to svc_anon, svc_authenticated`,
]
/** It makes nothing afterwards. */
export const CLOSE_SCHEMA = `revoke create on schema public from ${ADOPTED_OWNER}`

/** TargetSchema and policies as migrations for `svc migrate up`: never rows, users or secrets. */
export async function writeMigrations(folder: string, schema: TargetSchema): Promise<string[]> {
  await mkdir(folder, { recursive: true })
  const start = new Date().toISOString().replaceAll(/\D/g, '').slice(0, 12)
  const constraints = schema.constraints.map(({ sql, collection }): Statement => ({ by: 'owner', collection, sql }))
  const parts = [
    ['schema', textOf([...PRELUDE.map(asServer), ...schema.statements, ...constraints])],
    ['policies', textOf([...schema.access, ...viewStatements(schema), asServer(CLOSE_SCHEMA)])],
  ] as const
  const names: string[] = []
  for (const [index, [name, text]] of parts.entries()) {
    const file = join(folder, `${start}${String(index + 1).padStart(2, '0')}_pocketbase_${name}.sql`)
    if (existsSync(file)) throw new Error(`${file} is there already`)
    await writeFile(file, text)
    names.push(file)
  }
  return names
}

const viewStatements = ({ views }: TargetSchema): Statement[] =>
  views.flatMap(({ statements }) => statements.map((sql): Statement => ({ by: 'owner', collection: undefined, sql })))

const asServer = (sql: string): Statement => ({ by: 'server', collection: undefined, sql })

function textOf(statements: readonly Statement[]): string {
  let by: Statement['by'] = 'server'
  const lines: string[] = []
  for (const statement of statements) {
    if (statement.by !== by) lines.push(statement.by === 'owner' ? `set local role ${ADOPTED_OWNER};` : 'reset role;')
    by = statement.by
    lines.push(`${statement.sql};`)
  }
  return `${lines.join('\n')}\n${by === 'owner' ? 'reset role;\n' : ''}`
}
