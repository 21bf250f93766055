import type { Config } from '../../config/config.ts'

/** The parsed command line. `config()` reads the configuration on demand. */
export type Context = {
  /** As many as the command declares. */
  args: readonly string[]
  /** The sentence for wrong usage of this command. */
  usage: string
  json: boolean
  /** A flag of the command: its text, or `true` for a boolean flag. */
  flag(name: string): string | true | undefined
  /** All arguments after `svc`, for a command that starts itself again. */
  argv: readonly string[]
  /** To be called once this process serves. */
  onServing(): void
  url: string | undefined
  adminToken: string | undefined
  config(): { config: Config; warnings: string[] }
  print(line: string): void
}

export type Command = {
  /** For `svc --help`, without `svc`. */
  usage: string
  summary: string
  /** What its arguments are called, those that may be left out with a question mark; without it there are none. */
  args?: readonly string[]
  /** Flags beyond the global ones and those of the configuration; `string` takes a value. */
  flags?: Readonly<Record<string, 'string' | 'boolean'>>
  /** What its flags are for, by name. */
  about?: Readonly<Record<string, string>>
  /** Two lines to copy, for `svc help <command>`. */
  examples?: readonly [string, string]
  /** Talks to a server, so that --url and --admin-token mean something. */
  usesServer?: true
  run(context: Context): Promise<number>
}

/** Wrong usage of the command line; exit code 2. */
export class UsageError extends Error {}
