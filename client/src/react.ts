import { createContext, createElement, type ReactNode, useContext, useSyncExternalStore } from 'react'
import type { Page } from './data.ts'
import type { AnyDatabase, Column, ExpandPath, FilterOf, Key, Read, Sort, TableName } from './database.ts'
import type { ApiError } from './errors.ts'
import { filterText } from './filter.ts'
import type { Client, User } from './main.ts'

/** `declare module 'savanna-client/react' { interface Register { database: Database } }` gives the hooks their types. */
// biome-ignore lint/suspicious/noEmptyInterface: applications add to it
export interface Register {}
type DB = Register extends { database: infer Database } ? Database : AnyDatabase

/** What a hook knows now. Earlier data stays while newer is read. */
export type Loaded<Data> = {
  data: Data
  error: Error | undefined
  isLoading: boolean
  /** Reads again. */
  reload(): Promise<void>
}

type Mode = {
  /** Stays true as others write. A live list has one page, of which the total is known while it is not full. */
  live?: boolean
}
type Suspended = Mode & { suspense: true }
type Waiting = Mode & { suspense?: false }

const Context = createContext<Client<never> | undefined>(undefined)

/** Gives the components inside it a client. */
export const SvcProvider = ({ client, children }: { client: object; children?: ReactNode }): ReactNode =>
  createElement(Context.Provider, { value: client as Client<never> }, children)

export function useClient<Database = DB>(): Client<Database> {
  const client = useContext(Context)
  if (!client) throw new Error('useClient needs a SvcProvider above it')
  return client as unknown as Client<Database>
}

/** Who is signed in, or null. */
export function useUser(): User | null {
  const { auth } = useClient()
  const user = (): User | null => auth.session?.user ?? null
  return useSyncExternalStore(auth.onChange, user, user)
}

/** Changes of a table within this time are one reload. */
const GATHER_MS = 50
/** How long a result is kept that no component shows: StrictMode and Suspense mount twice. */
const KEPT_MS = 5_000

type Table = {
  list(query: object): Promise<unknown>
  find(key: unknown, query: object): Promise<unknown>
  watch(watcher: object): () => void
  live(query: object, onRows: (rows: readonly unknown[]) => void, options: object): () => void
}

/** `reload`: something has changed. `show`: what is there now, or why nothing comes any more. */
type Watching = { reload(): void; show(data: unknown, error?: Error): void }
type Watch = (entry: Watching) => () => void

/** One result, for all components that show it. */
class Entry {
  state: Loaded<unknown>
  promise: Promise<void> | undefined
  readonly #read: () => Promise<unknown>
  readonly #watch: Watch | undefined
  readonly #drop: () => void
  readonly #listeners = new Set<() => void>()
  #isStale = false
  /** What is there comes by itself, so that what was read before does not count. */
  #isShown = false
  #stop: (() => void) | undefined
  #dropping: ReturnType<typeof setTimeout> | undefined
  #gathering: ReturnType<typeof setTimeout> | undefined

  constructor(read: () => Promise<unknown>, watch: Watch | undefined, drop: () => void) {
    this.#read = read
    this.#watch = watch
    this.#drop = drop
    this.state = { data: undefined, error: undefined, isLoading: true, reload: () => this.reload() }
    this.#keep()
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    clearTimeout(this.#dropping)
    this.#stop ??= this.#watch?.({ reload: () => this.#gather(), show: (data, error) => this.#show(data, error) })
    if (!this.promise) void this.reload()
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.#keep()
    }
  }

  readonly current = (): Loaded<unknown> => this.state

  /** One read at a time; what changes meanwhile is read after it. */
  reload(): Promise<void> {
    if (this.state.isLoading && this.promise) {
      this.#isStale = true
      return this.promise
    }
    if (this.#isShown) return Promise.resolve()
    this.#set({ isLoading: true })
    this.promise = this.#read().then(
      (data) => this.#isShown || this.#set({ data, error: undefined, isLoading: false }),
      (error: Error) => this.#isShown || this.#set({ error, isLoading: false }),
    ) as Promise<void>
    return this.promise
  }

  #show(data: unknown, error?: Error): void {
    this.#isShown = !error
    this.#set({ ...(!error && { data }), error, isLoading: false })
  }

  #gather(): void {
    clearTimeout(this.#gathering)
    this.#gathering = setTimeout(() => void this.reload(), GATHER_MS)
  }

  #set(change: Partial<Loaded<unknown>>): void {
    this.state = { ...this.state, ...change }
    for (const listener of this.#listeners) listener()
    if (this.#isStale && !this.state.isLoading) {
      this.#isStale = false
      void this.reload()
    }
  }

  #keep(): void {
    clearTimeout(this.#dropping)
    this.#dropping = setTimeout(() => {
      this.#stop?.()
      this.#stop = undefined
      clearTimeout(this.#gathering)
      this.#drop()
    }, KEPT_MS)
    // A program that renders pages ends by itself.
    ;(this.#dropping as { unref?: () => void }).unref?.()
  }
}

const caches = new WeakMap<object, Map<string, Entry>>()

function useEntry(
  table: string,
  about: unknown,
  { live = false, suspense = false }: { live?: boolean; suspense?: boolean },
  read: (table: Table) => Promise<unknown>,
  follow?: (table: Table, entry: Watching) => () => void,
): Loaded<unknown> {
  const client = useClient<AnyDatabase>()
  // What one person has read is not shown to the next.
  const who = useUser()?.id
  const key = JSON.stringify([who, table, about, live], (_, part) => (typeof part === 'bigint' ? `${part}n` : part))
  const cache = caches.get(client.core) ?? new Map<string, Entry>()
  caches.set(client.core, cache)
  const rows = (): Table => client.from(table) as unknown as Table
  const watch: Watch = (entry) => {
    const { reload } = entry
    if (follow) return follow(rows(), entry)
    return rows().watch({
      onChange: reload,
      onReset: reload,
      onStatus: (status: string) => status === 'live' && reload(),
    })
  }
  const entry =
    cache.get(key) ??
    new Entry(
      () => read(rows()),
      live ? watch : undefined,
      () => cache.delete(key),
    )
  cache.set(key, entry)
  const state = useSyncExternalStore(entry.subscribe, entry.current, entry.current)
  if (suspense && state.data === undefined) {
    if (state.error) throw state.error
    throw entry.promise ?? entry.reload()
  }
  return state
}

type ListOptions<T extends TableName<DB>, F, E> = {
  filter?: FilterOf<DB, T>
  sort?: Sort<DB, T>
  fields?: readonly F[]
  expand?: readonly (E & ExpandPath<DB, T, E>)[]
  page?: number
  perPage?: number
}

/** A page of rows. */
export function useList<T extends TableName<DB>, const F extends Column<DB, T> = never, const E extends string = never>(
  table: T,
  query: ListOptions<T, F, E> | undefined,
  mode: Suspended,
): Loaded<Page<Read<DB, T, F, E>>>
export function useList<T extends TableName<DB>, const F extends Column<DB, T> = never, const E extends string = never>(
  table: T,
  query?: ListOptions<T, F, E>,
  mode?: Waiting,
): Loaded<Page<Read<DB, T, F, E>> | undefined>
export function useList(
  table: string,
  query: { filter?: object; page?: number; perPage?: number } = {},
  mode: Mode & { suspense?: boolean } = {},
) {
  const about = ['list', { ...query, filter: filterText(query.filter) }]
  const { page = 1, perPage = 20, ...others } = query
  const follow = (rows: Table, { show }: Watching): (() => void) =>
    rows.live({ ...others, perPage }, (items) => show(livePage(items, perPage)), {
      // What visitors may read is read once.
      onError: (error: ApiError) => error.error === 'unauthorized' || show(undefined, error),
    })
  // Only the first page is kept true; of others the table is watched.
  return useEntry(table, about, mode, (rows) => rows.list(query), page > 1 ? undefined : follow)
}

/** While the page is not full, its rows are all there are. */
function livePage(items: readonly unknown[], perPage: number) {
  const isAll = items.length < perPage
  return {
    items,
    page: 1,
    perPage,
    totalItems: isAll ? items.length : -1,
    totalPages: isAll ? Math.sign(items.length) : -1,
  }
}

type RowOptions<T extends TableName<DB>, F, E> = {
  fields?: readonly F[]
  expand?: readonly (E & ExpandPath<DB, T, E>)[]
}

/** One row; null when there is none. */
export function useRow<T extends TableName<DB>, const F extends Column<DB, T> = never, const E extends string = never>(
  table: T,
  key: Key<DB, T>,
  query: RowOptions<T, F, E> | undefined,
  mode: Suspended,
): Loaded<Read<DB, T, F, E> | null>
export function useRow<T extends TableName<DB>, const F extends Column<DB, T> = never, const E extends string = never>(
  table: T,
  key: Key<DB, T>,
  query?: RowOptions<T, F, E>,
  mode?: Waiting,
): Loaded<Read<DB, T, F, E> | null | undefined>
export function useRow(table: string, key: unknown, query: object = {}, mode: Mode & { suspense?: boolean } = {}) {
  return useEntry(table, ['row', key, query], mode, (rows) => rows.find(key, query))
}
