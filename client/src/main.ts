import { createAccount } from './account.ts'
import { createAuth } from './auth.ts'
import { type Channel, type ChannelOptions, createChannels } from './channels.ts'
import { type CallOptions, type Core, createCore, type Options } from './core.ts'
import { type Collection, type DataClient, dataOf, rowsOf } from './data.ts'
import type { AnyDatabase, Column, ExpandPath, FilterOf, Key, Read, Row, Sort, TableName } from './database.ts'
import type { ApiError } from './errors.ts'
import { filterText } from './filter.ts'
import { createHistory, type PastChanges } from './history.ts'
import { createLive, type LiveOptions } from './live.ts'
import { createOauth } from './oauth.ts'
import { createPasskeys } from './passkeys.ts'
import { createRealtime, type Realtime } from './realtime.ts'
import { memory } from './session.ts'
import { createStorage, type Storage } from './storage.ts'
import type { Change, Status, Watcher } from './subscription.ts'

type Watch<DB, T> = {
  filter?: FilterOf<DB, T>
  onChange: (change: Change<Row<DB, T>>) => void
  /** What was missed is no longer known: read anew. */
  onReset?: () => void
  onStatus?: (status: Status) => void
  onError?: (error: ApiError) => void
}

type Watched<DB, T> = {
  /** Hears of changes as they are committed, until the function that it returns is called. */
  watch(options: Watch<DB, T>): () => void
  /** The same as a loop. A lost position throws. */
  changes(
    options?: { filter?: FilterOf<DB, T> },
    call?: Pick<CallOptions, 'signal'>,
  ): AsyncGenerator<Change<Row<DB, T>>>
}

/** As a list, without pages. */
type LiveQuery<DB, T, F, E> = {
  filter?: FilterOf<DB, T>
  sort?: Sort<DB, T>
  /** At most 500. */
  perPage?: number
  fields?: readonly F[]
  expand?: readonly (E & ExpandPath<DB, T, E>)[]
  /** Further tables whose changes read the list again; views need them. */
  depends?: readonly TableName<DB>[]
}

type Lives<DB, T extends TableName<DB>> = {
  /** All rows of the list, at first and whenever they change, until the function that it returns is called. */
  live<const F extends Column<DB, T> = never, const E extends string = never>(
    query: LiveQuery<DB, T, F, E>,
    onRows: (rows: readonly Read<DB, T, F, E>[]) => void,
    options?: LiveOptions,
  ): () => void
  /** What became of a row, newest first, where the operator has opened it. */
  history(key: Key<DB, T>, query?: { perPage?: number; cursor?: string }, call?: CallOptions): Promise<PastChanges>
}

/** Accounts and sessions, with everything that there is about them. */
export type Auth = ReturnType<typeof wholeAuth>

/** Kept as one object, because `session` is what is so when it is read. */
const wholeAuth = (core: Core) =>
  Object.assign(createAuth(core), createOauth(core), createAccount(core), { passkey: createPasskeys(core) })

export type Client<DB> = Omit<DataClient<DB>, 'from'> & {
  from<T extends TableName<DB>>(table: T): Collection<DB, T> & Watched<DB, T> & Lives<DB, T>
  /** Broadcast and presence: joins a channel, and joins it again whenever the connection was lost. */
  channel(name: string, options?: ChannelOptions): Channel
  readonly auth: Auth
  readonly storage: Storage
  /** A client of another caller, which shares nothing with this one. */
  as(token: string): Client<DB>
}

type AnyWatch = Omit<Watcher, 'onChange'> & { filter?: object; onChange: (change: never) => void }

function watched(realtime: Realtime, table: string) {
  const watch = ({ filter, ...watcher }: AnyWatch) => realtime.watch(table, filterText(filter), watcher as Watcher)
  async function* changes({ filter }: { filter?: object } = {}, { signal }: { signal?: AbortSignal } = {}) {
    const heard: unknown[] = []
    let failure: unknown
    let wake = (): void => {}
    const fail = (error: unknown): void => {
      failure = error
      wake()
    }
    const onAbort = (): void => fail(signal?.reason)
    const stop = watch({
      ...(filter && { filter }),
      onChange(change) {
        heard.push(change)
        wake()
      },
      onReset: () => fail(new Error('changes were missed: read anew')),
      onError: fail,
    })
    signal?.addEventListener('abort', onAbort)
    try {
      for (;;) {
        yield* heard.splice(0)
        if (signal?.aborted) throw signal.reason
        if (failure) throw failure
        if (heard.length === 0) {
          await new Promise<void>((resolve) => {
            wake = resolve
          })
        }
      }
    } finally {
      signal?.removeEventListener('abort', onAbort)
      stop()
    }
  }
  return { watch, changes }
}

/** Rows, functions, GraphQL, accounts, realtime and files of one server. */
export function createClient<DB = AnyDatabase>(url: string, options: Options = {}): Client<DB> {
  const core: Core = createCore(url, options)
  const auth = wholeAuth(core)
  const realtime = createRealtime(core)
  const { live } = createLive(core)
  const { history } = createHistory(core)
  return {
    ...dataOf<DB>(core),
    from: (table) =>
      ({
        ...rowsOf(core, table),
        ...watched(realtime, table),
        live: (query: Readonly<Record<string, unknown>>, onRows: (rows: never) => void, options?: LiveOptions) =>
          live(table, query, onRows, options),
        history: (key: unknown, query?: object, call?: CallOptions) => history(table, key, query, call),
      }) as never,
    ...createChannels(core),
    auth,
    storage: createStorage(core),
    as: (token) => createClient(url, { ...options, key: token, session: memory() }),
  }
}

export type { Mfa, SignIn } from './accounts.ts'
export type { Channel, ChannelMessage, ChannelOptions, Member } from './channels.ts'
export type { CallOptions, Options } from './core.ts'
export type { Collection, CursorPage, DataClient, DryRun, Imported, Page } from './data.ts'
export type { AnyDatabase, DatabaseType, Insert, Row, TextNumbers, Update } from './database.ts'
export { ApiError, NetworkError, SessionEnded } from './errors.ts'
export { type Filter, where } from './filter.ts'
export type { PastChange, PastChanges } from './history.ts'
export type { LiveOptions } from './live.ts'
export { cookies, memory } from './session.ts'
export type { Session, SessionStore, User } from './session-store.ts'
export type { ImageTransform, Storage, StoredFile } from './storage.ts'
export type { Change, Status } from './subscription.ts'
