import type { Command } from './command.ts'

type Commands = ReadonlyMap<string, Command>

/** Options of every command. */
const COMMON = { config: 'svc.toml or another file', json: 'answer as JSON', help: 'this text' }
const SERVER = {
  url: 'the server to talk to; default: the one of this data directory',
  'admin-token': 'its admin token; default: the one of this data directory, or SVC_ADMIN_TOKEN',
}

export function helpOfAll(commands: Commands, configFlags: readonly string[]): string {
  const width = Math.max(...[...commands.values()].map(({ usage }) => usage.length))
  return [
    'Usage: svc <command>',
    '',
    ...[...commands.values()].map(({ usage, summary }) => `  svc ${usage.padEnd(width)}  ${summary}`),
    '',
    'svc help <command> shows the options of a command, with examples.',
    '',
    'Everywhere: --config <file>  --json',
    'Commands that talk to a server: --url <server>  --admin-token <token>',
    `Configuration: ${configFlags.map((flag) => `--${flag} <value>`).join('  ')}`,
  ].join('\n')
}

export function helpOfOne(command: Command, configFlags: readonly string[]): string {
  const { usage, summary, flags = {}, about = {}, usesServer, examples = [] } = command
  const own = Object.entries(flags).map(([name, type]) => option(name, type, about[name] ?? ''))
  const shared = Object.entries({ ...(usesServer && SERVER), ...COMMON }).map(([name, text]) =>
    option(name, name === 'json' || name === 'help' ? 'boolean' : 'string', text),
  )
  const options = [...own, ...shared]
  const width = Math.max(...options.map(([left]) => left.length))
  return [
    `Usage: svc ${usage}`,
    '',
    `  ${summary}`,
    '',
    'Options:',
    ...options.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`.trimEnd()),
    `  and of the configuration: ${configFlags.map((flag) => `--${flag}`).join(' ')}`,
    '',
    'Examples:',
    ...examples.map((example) => `  ${example}`),
  ].join('\n')
}

const option = (name: string, type: 'string' | 'boolean', text: string): [string, string] => [
  `--${name}${type === 'string' ? ' <value>' : ''}`,
  text,
]
