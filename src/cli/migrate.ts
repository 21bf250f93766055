import { type Context, UsageError } from './command/command.ts'
import { withConnection } from './command/database.ts'
import { textTable } from './command/text-table.ts'
import { applyAll, createMigration, migrationStates } from './user-migrations.ts'

export async function up(context: Context): Promise<number> {
  const { config } = context.config()
  const names: string[] = []
  await withConnection(config, (client) =>
    applyAll(client, config.database.migrations_dir, (name) => {
      names.push(name)
      if (!context.json) context.print(`applied ${name}`)
    }),
  )
  if (context.json) context.print(JSON.stringify({ applied: names }))
  else if (names.length === 0) context.print('nothing to apply')
  return 0
}

export async function create(context: Context): Promise<number> {
  const [name = ''] = context.args
  if (!/^[A-Za-z0-9_-]{1,100}$/.test(name)) {
    throw new UsageError('a migration name consists of letters, digits, _ and -')
  }
  const path = await createMigration(context.config().config.database.migrations_dir, name, new Date())
  context.print(context.json ? JSON.stringify({ path }) : path)
  return 0
}

export async function migrationStatus(context: Context): Promise<number> {
  const { config } = context.config()
  const all = await withConnection(config, (client) => migrationStates(client, config.database.migrations_dir))
  if (context.json) context.print(JSON.stringify({ items: all }))
  else if (all.length === 0) context.print(`no migrations in ${config.database.migrations_dir}`)
  else {
    const rows = all.map(({ name, state, appliedAt }) => [name, state, appliedAt ?? ''])
    context.print(textTable(['migration', 'state', 'applied'], rows))
  }
  return 0
}
