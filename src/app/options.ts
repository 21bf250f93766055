import type { LogEntry, Observe } from '../core/observe.ts'
import type { Peers } from '../core/peers.ts'
import type { Capability } from '../db/setup/capabilities.ts'
import type { Route } from '../http/route.ts'

/** What the process around the server gives it. */
export type AppOptions = {
  observe: Observe
  /** The entries of GET /api/admin/logs, oldest first. */
  logEntries?: () => LogEntry[]
  /** Receives a line for each step of a slow first start. */
  progress?: (line: string) => void
  /** Default: this process is the only one. */
  askAllWorkers?: Peers
  /** The embedded PostgreSQL, when another process of this server runs it. */
  embeddedUrl?: string | undefined
}

/** The running server, as `svc start` and the tests see it. */
export type RunningServer = {
  /** Where it listens. */
  url: string
  routes: readonly Route[]
  /** The admin password that this process generated, if it did; shown once. */
  generatedPassword: string | undefined
  /** An admin token for the command line tool on this machine. */
  issueAdminToken(): Promise<string | undefined>
  endAdminToken(token: string): Promise<void>
  /** For the banner of `svc start`. */
  describe(): Promise<{ serverVersion: string; capabilities: Capability[]; warnings: readonly string[] }>
  /** Helpers that remove what is over, by name. */
  cleanups: Readonly<Record<string, () => Promise<number>>>
  close(): Promise<void>
}
