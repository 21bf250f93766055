import type { ClientOptions } from './deliver/client.ts'
import type { Connections } from './deliver/connections.ts'
import type { Hub } from './hub.ts'
import type { Tables } from './subscribe/tables.ts'
import type { CallerQueue } from './visibility/caller-queue.ts'

/** What the routes of realtime share. */
export type RealtimeContext = {
  hub: Hub
  connections: Connections
  tables: Tables
  filters: CallerQueue
  /** Whether callers without a token may listen. */
  visitorsMayListen: boolean
  client: Omit<ClientOptions, 'who'>
  /** Throws while realtime is switched off. */
  requires: () => void
}
