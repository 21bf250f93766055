import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { HELPERS, OWNER } from './helpers.ts'
import type { Schema } from './schema.ts'
import type { Statement } from './statements.ts'

/** The role that owns what comes along, and what it may do with objects of ours. */
export const PRELUDE: readonly string[] = [
  `do $role$ begin
  if not exists (select from pg_catalog.pg_roles where rolname = '${OWNER}') then
    create role ${OWNER} nologin noinherit nosuperuser nocreatedb nocreaterole noreplication nobypassrls;
  end if;
  if exists (select from pg_catalog.pg_roles where rolname = '${OWNER}' and (rolsuper or rolbypassrls or rolcreaterole or rolreplication)) then
    raise exception 'the role ${OWNER} may do more than it should';
  end if;
exception when duplicate_object or unique_violation then null;
end $role$`,
  `do $member$ begin
  if not pg_catalog.pg_has_role(current_user, '${OWNER}', 'member') then execute pg_catalog.format('grant ${OWNER} to %I', current_user); end if;
end $member$`,
  `grant usage on schema svc to ${OWNER}`,
  `grant references (id), select (id, email_verified_at) on svc.users to ${OWNER}`,
  `grant usage, create on schema public to ${OWNER}`,
  `create schema if not exists ${HELPERS} authorization ${OWNER}`,
  `grant usage on schema ${HELPERS} to svc_anon, svc_authenticated`,
]
/** It makes nothing afterwards. */
export const CLOSE = `revoke create on schema public from ${OWNER}`

/** Schema and policies as migrations for `svc migrate up`: never rows, users or secrets. */
export async function writeMigrations(folder: string, schema: Schema): Promise<string[]> {
  await mkdir(folder, { recursive: true })
  const start = new Date().toISOString().replaceAll(/\D/g, '').slice(0, 12)
  const constraints = schema.constraints.map(({ sql, collection }): Statement => ({ by: 'owner', collection, sql }))
  const parts = [
    ['schema', textOf([...PRELUDE.map(asServer), ...schema.statements, ...constraints])],
    ['policies', textOf([...schema.access, asServer(CLOSE)])],
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

const asServer = (sql: string): Statement => ({ by: 'server', collection: undefined, sql })

function textOf(statements: readonly Statement[]): string {
  let by: Statement['by'] = 'server'
  const lines: string[] = []
  for (const statement of statements) {
    if (statement.by !== by) lines.push(statement.by === 'owner' ? `set local role ${OWNER};` : 'reset role;')
    by = statement.by
    lines.push(`${statement.sql};`)
  }
  return `${lines.join('\n')}\n${by === 'owner' ? 'reset role;\n' : ''}`
}
