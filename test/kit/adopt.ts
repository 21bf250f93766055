import type { Plan } from '../../src/cli/adopt/plan.ts'
import type { Context } from '../../src/cli/command/command.ts'
import { loadConfig } from '../../src/config/config.ts'
import { storagePath } from './kit.ts'

type Command = (context: Context) => Promise<number>
type Adopted = Plan & { removed?: string[] }

/** A command of `svc adopt` with `--json`, on the database of a server. */
export async function adopting(
  command: Command,
  databaseUrl: string,
  args: readonly string[],
  flags: Readonly<Record<string, string | true>> = {},
): Promise<Adopted> {
  const printed: string[] = []
  const overrides = { 'database.url': databaseUrl, 'storage.local_path': storagePath, 'storage.disk_reserve': 0 }
  await command({
    args,
    usage: '',
    json: true,
    argv: [],
    url: undefined,
    adminToken: undefined,
    flag: (name) => flags[name],
    onServing: () => {},
    config: () => loadConfig({ overrides }),
    print: (line) => printed.push(line),
  })
  return JSON.parse(printed.join('\n')) as Adopted
}
