import type { Plan } from '../../src/cli/adopt/plan.ts'
import type { Context } from '../../src/cli/command/command.ts'
import { peopleCommands } from '../../src/cli/people-commands.ts'
import { importUsers } from '../../src/cli/users-import/import.ts'
import { loadConfig } from '../../src/config/config.ts'

type Flags = Readonly<Record<string, string | true>>

/** `svc users import <file> --format … --json` in this process, into the database of a server. */
export const importInto =
  ({ databaseUrl }: { databaseUrl: string }) =>
  async (file: string, format: string, flags: Flags = {}): Promise<{ plan: Plan; out: string }> => {
    const lines: string[] = []
    const context: Context = {
      args: [file],
      usage: `usage: svc ${peopleCommands['users import']?.usage}`,
      json: true,
      flag: (name) => (name === 'format' ? format : flags[name]),
      argv: [],
      onServing: () => {},
      url: undefined,
      adminToken: undefined,
      config: () => loadConfig({ overrides: { 'database.url': databaseUrl } }),
      print: (line) => void lines.push(line),
    }
    await importUsers(context)
    return { plan: JSON.parse(lines.join('\n')) as Plan, out: lines.join('\n') }
  }
