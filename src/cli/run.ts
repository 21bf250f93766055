import { parseArgs } from 'node:util'
import { listedKeys, loadConfig } from '../config/config.ts'
import { reasonOf } from '../core/errors.ts'
import { nearestName } from '../core/nearest.ts'
import { type Command, type Context, UsageError } from './command/command.ts'
import { helpOfAll, helpOfOne } from './command/help.ts'
import { commands } from './commands.ts'

const globalFlags = {
  config: { type: 'string' },
  url: { type: 'string' },
  'admin-token': { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'v' },
} as const

const SERVER_FLAGS = ['url', 'admin-token']

/** Of every command, so that one in the wrong place is named; the one that is run decides about the type. */
const commandFlags = Object.fromEntries(
  [...commands.values()].flatMap(({ flags = {} }) => Object.entries(flags).map(([name, type]) => [name, { type }])),
)

const configFlags = listedKeys().flatMap(({ field }) => (field.flag === undefined ? [] : [field.flag]))

/**
 * Runs one command; resolves to the exit code: 0 done, 1 failed, 2 wrong usage. `onServing` is called once the process
 * serves.
 */
export async function run(argv: readonly string[], onServing: () => void = () => {}): Promise<number> {
  try {
    const { values, positionals } = parse(argv)
    const words = values['version'] === true && positionals.length === 0 ? ['version'] : positionals
    if (words.length === 0) return print(helpOfAll(commands, configFlags))
    if (values['help'] === true || words[0] === 'help') return print(help(words[0] === 'help' ? words.slice(1) : words))
    const found = findCommand(words)
    const { flags = {}, usesServer = false } = found.command
    const known = new Set([...Object.keys(flags), ...(usesServer ? SERVER_FLAGS : [])])
    for (const name of [...Object.keys(commandFlags), ...SERVER_FLAGS]) {
      if (values[name] !== undefined && !known.has(name)) {
        throw new UsageError(`--${name} does not belong to svc ${words.join(' ')} (see svc --help)`)
      }
    }
    return await found.command.run(contextOf(values, found.args, argv, onServing))
  } catch (error) {
    process.stderr.write(`${firstLine(reasonOf(error))}\n`)
    return error instanceof UsageError ? 2 : 1
  }
}

type Values = Record<string, string | boolean | undefined>

function parse(argv: readonly string[]): { values: Values; positionals: string[] } {
  const options = {
    ...globalFlags,
    ...commandFlags,
    ...Object.fromEntries(Object.entries(commandIn(argv)?.flags ?? {}).map(([name, type]) => [name, { type }])),
    ...Object.fromEntries(configFlags.map((flag) => [flag, { type: 'string' as const }])),
  }
  try {
    return parseArgs({ args: [...argv], options, allowPositionals: true, strict: true })
  } catch (error) {
    const reason = firstLine(reasonOf(error)).replace(/\.? To specify .*$/, '')
    const unknown = /^Unknown option '--([^'=]+)'/.exec(reason)?.[1]
    const near = unknown === undefined ? undefined : nearestName(unknown, Object.keys(options))
    throw new UsageError(`${reason}${near === undefined ? '' : `; did you mean --${near}?`} (see svc --help)`)
  }
}

/** The command that words name, wherever flags stand: `--files` takes a folder for one and nothing for another. */
function commandIn(argv: readonly string[]): Command | undefined {
  for (const [index, word] of argv.entries()) {
    const found = commands.get(`${word} ${argv[index + 1] ?? ''}`) ?? commands.get(word)
    if (found) return found
  }
  return undefined
}

/** Commands have one or two words; the rest are arguments. */
function findCommand(words: readonly string[]): { command: Command; args: readonly string[] } {
  const [first, second = ''] = words
  if (first === undefined) throw new UsageError('no command given (see svc --help)')
  const two = commands.get(`${first} ${second}`)
  if (two) return { command: two, args: words.slice(2) }
  const one = commands.get(first)
  if (one) return { command: one, args: words.slice(1) }
  throw new UsageError(`unknown command: ${words.slice(0, 2).join(' ')}${meant(words)} (see svc --help)`)
}

/** The nearest command, by both words or by the first. */
function meant([first = '', second]: readonly string[]): string {
  const names = [...commands.keys()]
  const both = second === undefined ? undefined : nearestName(`${first} ${second}`, names)
  const one = both ?? nearestName(first, new Set(names.map((name) => name.split(' ')[0] ?? '')))
  const isKnown = names.some((name) => name.split(' ')[0] === first)
  return one === undefined || (isKnown && both === undefined) ? '' : `; did you mean svc ${one}?`
}

function contextOf(values: Values, args: readonly string[], argv: readonly string[], onServing: () => void): Context {
  const text = (name: string) => (typeof values[name] === 'string' ? values[name] : undefined)
  return {
    args,
    argv,
    onServing,
    json: values['json'] === true,
    flag: (name) => (values[name] === false ? undefined : values[name]),
    url: text('url')?.replace(/\/+$/, ''),
    adminToken: text('admin-token') ?? (process.env['SVC_ADMIN_TOKEN'] || undefined),
    config: () =>
      loadConfig({
        file: text('config'),
        env: process.env,
        flags: Object.fromEntries(configFlags.map((flag) => [flag, text(flag)])),
      }),
    print: (line) => void print(line),
  }
}

function print(text: string): number {
  process.stdout.write(`${text}\n`)
  return 0
}

/** Of one command, of those that begin with the given word, or of all. */
function help(words: readonly string[]): string {
  const [first] = words
  if (first === undefined) return helpOfAll(commands, configFlags)
  const group = [...commands].filter(([name]) => name.startsWith(`${first} `))
  const isGroup = group.length > 0 && !commands.has(words.slice(0, 2).join(' ')) && words.length === 1
  if (!isGroup) return helpOfOne(findCommand(words).command, configFlags)
  return helpOfAll(
    new Map([...commands].filter(([name]) => name === first || name.startsWith(`${first} `))),
    configFlags,
  )
}

const firstLine = (text: string): string => text.split('\n')[0] ?? ''
