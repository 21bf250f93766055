import type { Command } from './command.ts'

type Commands = ReadonlyMap<string, Command>
type Row = readonly [left: string, right: string]

/** Options of every command. */
const COMMON = { config: 'svc.toml or another file', json: 'answer as JSON', help: 'this text' }
const SERVER = {
  url: 'the server to talk to; default: the one of this data directory',
  'admin-token': 'its admin token; default: the one of this data directory, or SVC_ADMIN_TOKEN',
}

const MOST_LEFT = 30
const LEAST_WIDTH = 40
const width = (): number => Math.max(LEAST_WIDTH, process.stdout.columns ?? 80)

export function helpOfAll(commands: Commands, configFlags: readonly string[]): string {
  return [
    'Usage: svc <command>',
    '',
    ...table([...commands.values()].map(({ usage, summary }) => [`svc ${usage}`, summary])),
    '',
    'svc help <command> shows the options of a command, with examples.',
    '',
    ...wrapped('Everywhere: --config <file> --json'),
    ...wrapped('Commands that talk to a server: --url <server> --admin-token <token>'),
    ...wrapped(`Configuration: ${configFlags.map((flag) => `--${flag}${GLUE}<value>`).join(' ')}`),
  ].join('\n')
}

export function helpOfOne(command: Command, configFlags: readonly string[]): string {
  const { usage, summary, flags = {}, about = {}, usesServer, examples = [] } = command
  const own = Object.entries(flags).map(([name, type]) => option(name, type, about[name] ?? ''))
  const shared = Object.entries({ ...(usesServer && SERVER), ...COMMON }).map(([name, text]) =>
    option(name, name === 'json' || name === 'help' ? 'boolean' : 'string', text),
  )
  return [
    ...wrapped(`Usage: svc ${usage}`),
    '',
    ...wrapped(`  ${summary}`, 2),
    '',
    'Options:',
    ...table([...own, ...shared]),
    ...wrapped(`  and of the configuration: ${configFlags.map((flag) => `--${flag}`).join(' ')}`),
    '',
    'Examples:',
    ...examples.map((example) => `  ${example}`),
  ].join('\n')
}

const option = (name: string, type: 'string' | 'boolean', text: string): Row => [
  `--${name}${type === 'string' ? ' <value>' : ''}`,
  text,
]

/** Two columns; where the left one is too long for its own, the right one begins on the next line. */
function table(rows: readonly Row[]): string[] {
  const fitting = rows.map(([left]) => left.length).filter((length) => length <= MOST_LEFT)
  const column = Math.max(0, ...fitting)
  return rows.flatMap(([left, right]) => {
    if (left.length <= column) return wrapped(`  ${left.padEnd(column)}  ${right}`.trimEnd(), column + 4)
    return [...wrapped(`  ${left}`), ...(right === '' ? [] : wrapped(`${' '.repeat(column + 4)}${right}`, column + 4))]
  })
}

/** A space at which no line ends. */
const GLUE = '\u00a0'

/** Lines that fit the terminal; those after the first are indented. Spaces inside of a line stay as they are. */
function wrapped(text: string, indent = 4): string[] {
  const lines: string[] = []
  let rest = text
  while (rest.length > width()) {
    const least = lines.length === 0 ? text.search(/\S/) : indent
    const at = rest.lastIndexOf(' ', width())
    if (at <= least) break
    lines.push(rest.slice(0, at).trimEnd())
    rest = ' '.repeat(indent) + rest.slice(at + 1)
  }
  return [...lines, rest].map((line) => line.replaceAll(GLUE, ' '))
}
