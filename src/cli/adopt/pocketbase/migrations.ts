import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ADOPTED_OWNER, ownerPrelude } from '../adopted-owner.ts'
import type { TargetSchema } from './schema.ts'
import { HELPERS } from './sql-functions.ts'
import type { Statement } from './statements.ts'

export const PRELUDE: readonly string[] = ownerPrelude(HELPERS)
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
