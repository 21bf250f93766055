import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Ident } from '../../../db/sql.ts'
import { ADOPTED_OWNER, ownerPrelude } from '../adopted-owner.ts'
import type { SchemaStep } from './ddl.ts'

const quote = (name: string): string => new Ident(name).quoted

type Setup = {
  roles: readonly string[]
  schemas: readonly string[]
  extensions: readonly { name: string; schema: string }[]
}

/** Schema, then policies and rights, for `svc migrate up`: never rows, users or secrets. */
export async function writeMigrationFiles(
  folder: string,
  source: string,
  helpers: string,
  setup: Setup,
  steps: readonly SchemaStep[],
): Promise<string[]> {
  await mkdir(folder, { recursive: true })
  const start = new Date().toISOString().replaceAll(/\D/g, '').slice(0, 12)
  // What only rows need.
  const kept = steps.filter(({ sql }) => !/^(select pg_catalog\.setval|refresh )/.test(sql))
  const isRight = ({ what }: SchemaStep): boolean => /^(policy|rights) /.test(what)
  const parts = [
    ['schema', [...setupLines(helpers, setup), ...linesOf(kept.filter((one) => !isRight(one)))]],
    ['policies', [...linesOf(kept.filter(isRight)), `revoke create on schema public from ${ADOPTED_OWNER};`]],
  ] as const
  const names: string[] = []
  for (const [index, [name, lines]] of parts.entries()) {
    const file = join(folder, `${start}${String(index + 1).padStart(2, '0')}_${source}_${name}.sql`)
    if (existsSync(file)) throw new Error(`${file} is there already`)
    await writeFile(file, `set local search_path = '';\nset local check_function_bodies = off;\n${lines.join('\n')}\n`)
    names.push(file)
  }
  return names
}

/** Each step as who it is by. */
function linesOf(steps: readonly SchemaStep[]): string[] {
  const lines: string[] = []
  let by: SchemaStep['by'] = 'server'
  for (const phase of ['before', 'after'] as const)
    for (const step of steps.filter((one) => one.phase === phase)) {
      if (step.by !== by) lines.push(step.by === 'owner' ? `set local role ${ADOPTED_OWNER};` : 'reset role;')
      by = step.by
      lines.push(`${step.sql.replace(/;\s*$/, '')};`)
    }
  return by === 'owner' ? [...lines, 'reset role;'] : lines
}

const setupLines = (helpers: string, { roles, schemas, extensions }: Setup): string[] => [
  ...ownerPrelude(helpers).map((sql) => `${sql};`),
  ...roles.map(
    (role) =>
      `do $role$ begin if not exists (select from pg_catalog.pg_roles where rolname = '${role}') then create role ${role} nologin noinherit; end if; end $role$;`,
  ),
  ...extensions.flatMap(({ name, schema }) => [
    `create schema if not exists ${quote(schema)};`,
    `create extension if not exists ${quote(name)} with schema ${quote(schema)};`,
    ...(schema === 'public' ? [] : [`grant usage on schema ${quote(schema)} to public;`]),
  ]),
  ...schemas.map((name) => `create schema if not exists ${quote(name)} authorization ${ADOPTED_OWNER};`),
]
