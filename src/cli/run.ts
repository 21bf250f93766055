import { parseArgs } from 'node:util'
import { listedKeys, loadConfig } from '../config/config.ts'
import { reasonOf } from '../core/errors.ts'
import { nearestName } from '../core/nearest.ts'
import { type Command, type Context, UsageError } from './command/command.ts'
import { helpOfAll, helpOfOne } from './command/help.ts'
import { causeOf } from './command/system-error.ts'
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
  const output = watchOutput()
  try {
    const { values, positionals } = parse(argv)
    const words = values['version'] === true && positionals.length === 0 ? ['version'] : positionals
    if (words.length === 0) return print(helpOfAll(commands, configFlags))
    if (values['help'] === true || words[0] === 'help') return print(help(words[0] === 'help' ? words.slice(1) : words))
    if (words.length === 1 && !commands.has(words[0] ?? '') && groupOf(words[0]).length > 0) {
      process.stderr.write(`${help(words)}\n`)
      return 2
    }
    const found = findCommand(words)
    const { flags = {}, usesServer = false } = found.command
    const known = new Set([...Object.keys(flags), ...(usesServer ? SERVER_FLAGS : [])])
    for (const name of [...Object.keys(commandFlags), ...SERVER_FLAGS]) {
      if (values[name] !== undefined && !known.has(name)) {
        throw new UsageError(`--${name} does not belong to svc ${words.join(' ')} (see svc --help)`)
      }
    }
    requireArgs(found.command, found.args, words)
    const code = await found.command.run(contextOf(values, found, argv, onServing))
    return output.failure === undefined ? code : 1
  } catch (error) {
    if (error === output.error) return output.failure === undefined ? 0 : 1
    process.stderr.write(`${firstLine(reasonOf(error))}\n`)
    return error instanceof UsageError ? 2 : 1
  }
}

type Output = { error?: unknown; failure?: string }

/** A reader that went away, such as `head`, is no failure; a full disk is. */
function watchOutput(): Output {
  const output: Output = {}
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (output.error !== undefined) return
    output.error = error
    if (error.code === 'EPIPE') return
    output.failure = causeOf(error)
    process.stderr.write(`the output cannot be written: ${output.failure}\n`)
    process.exitCode = 1
  })
  process.stderr.on('error', () => {}) // its reader is gone
  return output
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
    return parseArgs({ args: joined(argv, options), options, allowPositionals: true, strict: true })
  } catch (error) {
    const reason = firstLine(reasonOf(error)).replace(/\.? To specify .*$/, '')
    const unknown = /^Unknown option '--([^'=]+)'/.exec(reason)?.[1]
    const near = unknown === undefined ? undefined : nearestName(unknown, Object.keys(options))
    throw new UsageError(`${reason}${near === undefined ? '' : `; did you mean --${near}?`} (see svc --help)`)
  }
}

/** `--sort -id` as `--sort=-id`: an option with a value takes what follows it, as in other programs. */
function joined(argv: readonly string[], options: Readonly<Record<string, { type: string }>>): string[] {
  const args: string[] = []
  for (const word of argv) {
    const last = args.at(-1)
    const isValue = /^-[^-]/.test(word) && last?.startsWith('--') && options[last.slice(2)]?.type === 'string'
    if (isValue) args[args.length - 1] = `${last}=${word}`
    else args.push(word)
  }
  return args
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
function findCommand(words: readonly string[]): Found {
  const [first, second = ''] = words
  if (first === undefined) throw new UsageError('no command given (see svc --help)')
  const two = commands.get(`${first} ${second}`)
  if (two) return { command: two, args: words.slice(2) }
  const one = commands.get(first)
  if (one) return { command: one, args: words.slice(1) }
  throw new UsageError(unknownCommand(words))
}

const unknownCommand = (words: readonly string[]): string =>
  `unknown command: ${words.slice(0, 2).join(' ')}${meant(words)} (see svc --help)`

const groupOf = (first = ''): [string, Command][] => [...commands].filter(([name]) => name.startsWith(`${first} `))

/** The nearest command, by both words or by the first. */
function meant([first = '', second]: readonly string[]): string {
  const names = [...commands.keys()]
  const both = second === undefined ? undefined : nearestName(`${first} ${second}`, names)
  const one = both ?? nearestName(first, new Set(names.map((name) => name.split(' ')[0] ?? '')))
  const isKnown = names.some((name) => name.split(' ')[0] === first)
  return one === undefined || (isKnown && both === undefined) ? '' : `; did you mean svc ${one}?`
}

function requireArgs({ args = [], usage }: Command, given: readonly string[], words: readonly string[]): void {
  const least = args.filter((name) => !name.endsWith('?')).length
  if (given.length >= least && given.length <= args.length) return
  const name = words.slice(0, 2).join(' ')
  const group = groupOf(words[0]).map(([one]) => one)
  const isMistyped = !group.includes(name) && nearestName(name, group) !== undefined
  throw new UsageError(isMistyped ? unknownCommand(words) : `usage: svc ${usage}`)
}

type Found = { command: Command; args: readonly string[] }

function contextOf(values: Values, { command, args }: Found, argv: readonly string[], onServing: () => void): Context {
  const text = (name: string) => (typeof values[name] === 'string' ? values[name] : undefined)
  const url = text('url')?.replace(/\/+$/, '')
  if (url !== undefined && !/^https?:\/\/[^/]/i.test(url))
    throw new UsageError(`--url needs http:// or https://: ${url}`)
  return {
    args,
    usage: `usage: svc ${command.usage}`,
    argv,
    onServing,
    json: values['json'] === true,
    flag: (name) => (values[name] === false ? undefined : values[name]),
    url,
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
  const group = groupOf(first)
  const isGroup = group.length > 0 && !commands.has(words.slice(0, 2).join(' ')) && words.length === 1
  if (!isGroup) return helpOfOne(findCommand(words).command, configFlags)
  return helpOfAll(
    new Map([...commands].filter(([name]) => name === first || name.startsWith(`${first} `))),
    configFlags,
  )
}

const firstLine = (text: string): string => text.split('\n')[0] ?? ''
