import { readFileSync, writeFileSync } from 'node:fs'
import { createIntrospection } from '../db/schema/introspect/introspect.ts'
import { accessMatrix, usersOf } from '../features/rls/access-matrix.ts'
import type { Context } from './command/command.ts'
import { withDb } from './command/database.ts'
import { callAdmin } from './command/server-api.ts'
import { causeOf } from './command/system-error.ts'

const FILE = 'rls.snapshot'

/** Writes the access matrix to a file, for version control. */
export async function snapshot(context: Context): Promise<number> {
  const file = fileOf(context)
  const users = context.flag('users')
  const named = typeof users === 'string' ? users.split(',').map((name) => name.trim()) : undefined
  const text = await current(context, named)
  writeFileSync(file, text)
  context.print(context.json ? JSON.stringify({ file, users: usersOf(text) }) : `wrote ${file}`)
  return 0
}

/** Prints what changed since the snapshot; exit code 1 when anything did. */
export async function diff(context: Context): Promise<number> {
  const file = fileOf(context)
  const before = readSnapshot(file)
  const after = await current(context, usersOf(before))
  const [then, now] = [new Set(before.split('\n')), new Set(after.split('\n'))]
  const removed = [...then].filter((line) => !now.has(line))
  const added = [...now].filter((line) => !then.has(line))
  if (context.json) context.print(JSON.stringify({ removed, added }))
  else
    for (const line of [...removed.map((gone) => `- ${gone}`), ...added.map((made) => `+ ${made}`)]) context.print(line)
  return removed.length + added.length > 0 ? 1 : 0
}

function readSnapshot(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw new Error(`${file} cannot be read: ${causeOf(error)}`)
    throw new Error(`there is no ${file}: svc rls snapshot${file === FILE ? '' : ` ${file}`} writes it`)
  }
}

const fileOf = ({ args: [file = FILE] }: Context): string => file

/** From the server that --url names, else from the configured database, which needs no running server. */
async function current(context: Context, users: readonly string[] | undefined): Promise<string> {
  if (context.url !== undefined) {
    const answer = await callAdmin(context, '/api/admin/rls/snapshot', { ...(users && { users }) })
    return (JSON.parse(answer) as { snapshot: string }).snapshot
  }
  const { config } = context.config()
  return withDb(config, async (db) => {
    const { schema } = await createIntrospection(db, config.api.schemas)()
    return accessMatrix(db, schema, users)
  })
}
