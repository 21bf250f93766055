import type { Config } from '../../config/config.ts'

/** What a command gets: the configuration is read only when it is asked for. */
export type Context = {
  args: readonly string[]
  json: boolean
  /** A flag that the command declares: its text, or `true` where it has none. */
  flag(name: string): string | true | undefined
  /** Everything behind `svc`, for a command that starts itself again. */
  argv: readonly string[]
  /** To be called once this process serves. */
  onServing(): void
  url: string | undefined
  adminToken: string | undefined
  config(): { config: Config; warnings: string[] }
  print(line: string): void
}

export type Command = {
  /** As `svc --help` shows it, without `svc`. */
  usage: string
  summary: string
  /** Flags beyond the global ones and those of the configuration, and whether they take a value. */
  flags?: Readonly<Record<string, 'string' | 'boolean'>>
  run(context: Context): Promise<number>
}

/** The caller used the command line wrongly; exit code 2. */
export class UsageError extends Error {}
