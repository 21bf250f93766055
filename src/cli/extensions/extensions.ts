import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../../config/config.ts'
import { EXTENSION_USES } from '../../db/setup/capabilities.ts'
import { accountFor } from '../../db/setup/embedded/account.ts'
import { findBinaries } from '../../db/setup/embedded/binaries.ts'
import { extensionsDir, FIRST_WITH_OWN_EXTENSIONS, keepExtension } from '../../db/setup/embedded/extensions.ts'
import { holderOf } from '../../db/setup/embedded/lock.ts'
import { type Context, UsageError } from '../command/command.ts'
import { withConnection } from '../command/database.ts'
import { textTable } from '../command/text-table.ts'
import { fetchExtension } from './fetch.ts'
import { readExtension } from './source.ts'
import { tryOut } from './try-out.ts'

type ListedExtension = { name: string; state: 'installed' | 'available' | 'missing'; version?: string; for: string }

const NAME = /^[a-z][a-z0-9_]{0,62}$/

/** What this database has, could have, and what each is for here. */
export async function listExtensions(context: Context): Promise<number> {
  const { config } = context.config()
  const known = EXTENSION_USES.map(({ name }) => name)
  const rows = await withConnection(config, async (client) => {
    const found = await client.query<{ name: string; version: string; installed: string | null }>(
      `select name, coalesce(installed_version, default_version) as version, installed_version as installed
       from pg_available_extensions where name = any($1) or installed_version is not null order by name`,
      [known],
    )
    return found.rows
  })
  const names = [...new Set([...known, ...rows.map(({ name }) => name)])]
  const items = names.map((name): ListedExtension => {
    const row = rows.find((one) => one.name === name)
    const use = EXTENSION_USES.find((one) => one.name === name)?.serves ?? 'your own SQL'
    if (!row) return { name, state: 'missing', for: use }
    return { name, state: row.installed === null ? 'available' : 'installed', version: row.version, for: use }
  })
  const shown = items.map((item) => [item.name, item.state, item.version ?? '-', item.for])
  context.print(context.json ? JSON.stringify({ items }) : textTable(['extension', 'state', 'version', 'for'], shown))
  return 0
}

/** Adds an extension to the embedded PostgreSQL, after it was loaded in a scratch cluster. */
export async function addExtension(context: Context): Promise<number> {
  const [name = ''] = context.args
  if (!NAME.test(name)) throw new UsageError(`not a name of an extension: ${name}`)
  const { config } = context.config()
  const { dir, major } = placeOf(config, name)
  const from = context.flag('from')
  const source = typeof from === 'string' ? { path: from } : fetchExtension(name, major)
  if ('byHand' in source) {
    const why = `cannot fetch ${name} by itself`
    if (context.json) throw new Error(`${why}: ${source.byHand.replaceAll('\n', '; ')}`)
    for (const line of [`${why}; by hand:`, ...source.byHand.split('\n')]) context.print(line)
    return 1
  }
  try {
    const files = await readExtension(name, source.path, major)
    await tryOut(files, config.database.embedded_bin_dir, major)
    keepExtension(dir, files)
    const isRunning = holderOf(config.data_dir) !== undefined
    const next = isRunning ? 'restart to load it' : 'the next start loads it'
    const { version } = files
    context.print(
      context.json
        ? JSON.stringify({ name, version, path: dir, restart: isRunning })
        : `${name} ${version} is in ${dir}; ${next}, then: create extension ${name}`,
    )
    return 0
  } finally {
    if ('folder' in source && source.folder) rmSync(source.folder, { recursive: true, force: true })
  }
}

function placeOf({ database, data_dir: dataDir }: Config, name: string): { dir: string; major: number } {
  if (database.url !== '') {
    throw new Error(
      `svc extensions add is for the embedded PostgreSQL: install ${name} on the machine of the database, from its packages or its provider`,
    )
  }
  if (!existsSync(dataDir)) mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const account = accountFor(join(dataDir, 'postgres'))
  const { major } = findBinaries(database.embedded_bin_dir, account)
  if (major < FIRST_WITH_OWN_EXTENSIONS) {
    throw new Error(
      `PostgreSQL ${major} finds extensions in its own folders only: install ${name} there, or use PostgreSQL 18`,
    )
  }
  return { dir: extensionsDir(dataDir, account, major), major }
}
