import { adoptCommands } from './adopt-commands.ts'
import { backupCommands } from './backup-commands.ts'
import { type Command, UsageError } from './command/command.ts'
import { dataCommands } from './data-commands.ts'
import { fileCommands } from './file-commands.ts'
import { peopleCommands } from './people-commands.ts'
import { serverCommands } from './server-commands.ts'

const completion: Command = {
  usage: 'completion bash|zsh|fish',
  args: ['shell'],
  summary: 'print what completes svc in a shell',
  examples: ['source <(svc completion bash)', 'svc completion fish > ~/.config/fish/completions/svc.fish'],
  run: async (context) => {
    const { completionFor, SHELLS } = await import('./command/completion.ts')
    const shell = SHELLS.find((name) => name === context.args[0])
    if (!shell) throw new UsageError(context.usage)
    const { listedKeys } = await import('../config/config.ts')
    const configFlags = listedKeys().flatMap(({ field }) => field.flag ?? [])
    context.print(completionFor(shell, commands, ['config', 'json', 'help', ...configFlags]).trimEnd())
    return 0
  },
}

/** Each command is loaded when it runs, so that `svc version` does not load the server. */
export const commands: ReadonlyMap<string, Command> = new Map(
  Object.entries({
    ...serverCommands,
    ...dataCommands,
    ...backupCommands,
    ...fileCommands,
    ...peopleCommands,
    ...adoptCommands,
    completion,
  }),
)
