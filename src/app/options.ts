import type { LogEntry, Observe } from '../core/observe.ts'
import type { Peers } from '../core/peers.ts'
import type { Capability } from '../db/setup/capabilities.ts'
import type { Route } from '../http/route.ts'

/** What the surrounding process passes to the server. */
export type AppOptions = {
  observe: Observe
  /** The entries of GET /api/admin/logs, oldest first. */
  logEntries?: () => LogEntry[]
  /** Receives a progress line for each step of a slow first start. */
  progress?: (line: string) => void
  /** Default: this process is the only one. */
  askAllWorkers?: Peers
  /** The URL of the embedded PostgreSQL, when the parent process runs it. */
  embeddedUrl?: string | undefined
  /** The folder of the built dashboard. */
  dashboardFolder?: string | undefined
}

/** The running server, as `svc start` and the tests see it. */
export type RunningServer = {
  /** The listen address. */
  url: string
  routes: readonly Route[]
  /** The admin password, if this process generated it; shown once. */
  generatedPassword: string | undefined
  /** An admin token for the command line tool on this machine. */
  issueAdminToken(): Promise<string | undefined>
  endAdminToken(token: string): Promise<void>
  /** For the banner of `svc start`. */
  describe(): Promise<{ serverVersion: string; capabilities: Capability[]; warnings: readonly string[] }>
  /** Cleanups of expired data, by name. */
  cleanups: Readonly<Record<string, () => Promise<number>>>
  close(): Promise<void>
}
