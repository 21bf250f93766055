import {
  type CallOptions,
  type Core,
  createCore,
  keyText,
  type Method,
  type Options,
  type Request,
  segment,
} from './core.ts'
import type {
  AnyDatabase,
  Args,
  Column,
  ExpandPath,
  FilterOf,
  FunctionName,
  Insert,
  Key,
  Read,
  Returns,
  Row,
  Sort,
  TableName,
  Unique,
  Update,
} from './database.ts'
import { ApiError } from './errors.ts'
import { filterText } from './filter.ts'
import type { OnProgress } from './progress.ts'

export type Page<Item> = {
  items: Item[]
  page: number
  perPage: number
  /** -1 when it was not counted. */
  totalItems: number
  totalPages: number
  totalIsEstimate?: boolean
}
export type CursorPage<Item> = { items: Item[]; perPage: number; nextCursor: string | null }

/** Columns and relations to read. */
type Selection<DB, T, F, E> = {
  fields?: readonly F[]
  expand?: readonly (E & ExpandPath<DB, T, E>)[]
}

type Choice<DB, T> = { filter?: FilterOf<DB, T>; sort?: Sort<DB, T> }
type Paging = { page?: number; perPage?: number; total?: 'exact' | 'estimate' | 'none' }
/** Of a PostGIS column. */
type Places = { near?: string; within?: string; intersects?: string; bbox?: string }
export type ListQuery<DB, T, F, E> = Selection<DB, T, F, E> & Choice<DB, T> & Paging & Places

type Aggregates<C> = {
  count?: boolean
  countDistinct?: readonly C[]
  sum?: readonly C[]
  avg?: readonly C[]
  min?: readonly C[]
  max?: readonly C[]
}
type Named<Prefix extends string, A, K extends string, V> = A extends { [P in K]: readonly (infer C extends string)[] }
  ? { [Name in C as `${Prefix}_${Name}`]: V }
  : unknown
type Aggregated<A> = (A extends { count: true } ? { count: number } : unknown) &
  Named<'count_distinct', A, 'countDistinct', number> &
  Named<'sum', A, 'sum', number | bigint | string | null> &
  Named<'avg', A, 'avg', number | bigint | string | null> &
  Named<'min', A, 'min', unknown> &
  Named<'max', A, 'max', unknown>

type SearchOptions<DB, T, F, E, C> = ListQuery<DB, T, F, E> & {
  fuzzy?: boolean
  typoThreshold?: number
  facets?: readonly C[]
  highlight?: boolean
  /** With vectors of the text as well. */
  semantic?: boolean
}
export type Found<Item, C extends string> = Page<
  Item & { _highlight?: string; _highlightResult?: Record<string, { value: string; matchLevel: 'full' | 'none' }> }
> & { facets?: { [Name in C]: { value: unknown; count: number }[] } }

type NearOptions<DB, T, F, E> = Selection<DB, T, F, E> & {
  filter?: FilterOf<DB, T>
  column?: Column<DB, T>
  perPage?: number
  distance?: 'cosine' | 'l2' | 'inner_product'
} & ({ text: string } | { vector: readonly number[] })

export type Format = 'csv' | 'json' | 'ndjson'

type Upsert<DB, T> = {
  /** The columns of a unique constraint. */
  onConflict: readonly Column<DB, T>[] | Unique<DB, T>
  /** `ignore`: a row that is there stays as it is. */
  merge?: boolean | 'ignore'
}

type ImportOptions<DB, T> = Partial<Upsert<DB, T>> & {
  format?: Format
  dryRun?: boolean
  /** Of clients that have files. */
  onProgress?: OnProgress
}
export type Imported = { created: number; updated: number; skipped: number; dry_run: boolean }

/** What a write would have done: its status and answer, and the changes that the caller may see, those of triggers too. */
export type DryRun<Answer> = {
  status: number
  answer: Answer
  changes: (
    | { table: string; action: string; key: unknown; changes: Record<string, { old?: unknown; new?: unknown }> }
    | { other: true }
  )[]
  /** There are more changes than are listed. */
  truncated?: boolean
}
type Dry = CallOptions & { dryRun: true }

/** One part of a batch, made by `op`. */
export type Operation<Result> = { readonly method: string; readonly result?: Result }
type Results<Ops extends readonly Operation<unknown>[]> = {
  -readonly [I in keyof Ops]: Ops[I] extends Operation<infer Result> ? Result : never
}

type Reads<DB, T extends TableName<DB>> = {
  list<const F extends Column<DB, T> = never, const E extends string = never>(
    query: ListQuery<DB, T, F, E> & { cursor: string },
    call?: CallOptions,
  ): Promise<CursorPage<Read<DB, T, F, E>>>
  list<const F extends Column<DB, T> = never, const E extends string = never>(
    query?: ListQuery<DB, T, F, E>,
    call?: CallOptions,
  ): Promise<Page<Read<DB, T, F, E>>>
  first<const F extends Column<DB, T> = never, const E extends string = never>(
    query?: ListQuery<DB, T, F, E>,
    call?: CallOptions,
  ): Promise<Read<DB, T, F, E> | null>
  count(query?: { filter?: FilterOf<DB, T> }, call?: CallOptions): Promise<number>
  /** Without `group` one row, else one for each group. */
  aggregate<const A extends Aggregates<Column<DB, T>>, const G extends Column<DB, T> = never>(
    query: A & { group?: readonly G[]; filter?: FilterOf<DB, T>; sort?: string; page?: number; perPage?: number },
    call?: CallOptions,
  ): Promise<(Pick<Row<DB, T>, G & keyof Row<DB, T>> & Aggregated<A>)[]>
  search<const F extends Column<DB, T> = never, const E extends string = never, const C extends Column<DB, T> = never>(
    text: string,
    query?: SearchOptions<DB, T, F, E, C>,
    call?: CallOptions,
  ): Promise<Found<Read<DB, T, F, E>, C>>
  /** Nearest first, by the vectors of a column. */
  near<const F extends Column<DB, T> = never, const E extends string = never>(
    query: NearOptions<DB, T, F, E>,
    call?: CallOptions,
  ): Promise<Page<Read<DB, T, F, E> & { _distance: number }>>
  export(
    query?: Choice<DB, T> & { format?: Format; fields?: readonly Column<DB, T>[]; search?: string },
    call?: CallOptions,
  ): Promise<ReadableStream<Uint8Array>>
}

type KeyedReads<DB, T extends TableName<DB>> = {
  /** Throws `record_not_found`. */
  get<const F extends Column<DB, T> = never, const E extends string = never>(
    key: Key<DB, T>,
    query?: Selection<DB, T, F, E>,
    call?: CallOptions,
  ): Promise<Read<DB, T, F, E>>
  /** Null when there is no such row. */
  find<const F extends Column<DB, T> = never, const E extends string = never>(
    key: Key<DB, T>,
    query?: Selection<DB, T, F, E>,
    call?: CallOptions,
  ): Promise<Read<DB, T, F, E> | null>
  /** Every row, page by page; rows written meanwhile neither repeat nor hide others. */
  each<const F extends Column<DB, T> = never, const E extends string = never>(
    query?: Omit<ListQuery<DB, T, F, E>, 'page' | 'total'>,
    call?: CallOptions,
  ): AsyncGenerator<Read<DB, T, F, E>, void, undefined>
}

type Writes<DB, T extends TableName<DB>> = {
  create(row: Insert<DB, T>, call: Dry): Promise<DryRun<Row<DB, T>>>
  create(row: Insert<DB, T>, call?: CallOptions): Promise<Row<DB, T>>
  upsert(row: Insert<DB, T>, options: Upsert<DB, T>, call: Dry): Promise<DryRun<Row<DB, T>>>
  upsert(row: Insert<DB, T>, options: Upsert<DB, T>, call?: CallOptions): Promise<Row<DB, T>>
  /** All of it or nothing. The results are in the order of the operations. */
  batch(operations: readonly Operation<unknown>[], call: Dry): Promise<DryRun<{ status: number; body?: unknown }[]>>
  batch<const Ops extends readonly Operation<unknown>[]>(operations: Ops, call?: CallOptions): Promise<Results<Ops>>
  import(
    rows: Blob | string | Uint8Array<ArrayBuffer> | readonly Insert<DB, T>[],
    options?: ImportOptions<DB, T>,
    call?: CallOptions,
  ): Promise<Imported>
  op: {
    create(row: Insert<DB, T>): Operation<Row<DB, T>>
    upsert(row: Insert<DB, T>, options: Upsert<DB, T>): Operation<Row<DB, T>>
  }
}

type KeyedWrites<DB, T extends TableName<DB>> = {
  update(key: Key<DB, T>, change: Update<DB, T>, call: Dry): Promise<DryRun<Row<DB, T>>>
  update(key: Key<DB, T>, change: Update<DB, T>, call?: CallOptions): Promise<Row<DB, T>>
  delete(key: Key<DB, T>, call: Dry): Promise<DryRun<null>>
  delete(key: Key<DB, T>, call?: CallOptions): Promise<void>
  op: {
    update(key: Key<DB, T>, change: Update<DB, T>): Operation<Row<DB, T>>
    delete(key: Key<DB, T>): Operation<null>
  }
}

/** What a table or view can do: views without a key have no `get`, views that cannot be written no `create`. */
export type Collection<DB, T extends TableName<DB>> = Reads<DB, T> &
  ([Key<DB, T>] extends [never] ? unknown : KeyedReads<DB, T>) &
  ([Insert<DB, T>] extends [never] ? unknown : Writes<DB, T>) &
  ([Update<DB, T>] extends [never] ? unknown : [Key<DB, T>] extends [never] ? unknown : KeyedWrites<DB, T>)

type RequestOptions = { query?: Readonly<Record<string, unknown>>; body?: unknown }

/** Rows, functions and GraphQL. */
export type DataClient<DB> = {
  /** What other entries build on. */
  readonly core: Core
  from<T extends TableName<DB>>(table: T): Collection<DB, T>
  rpc<F extends FunctionName<DB>>(
    name: F,
    ...rest: object extends Args<DB, F>
      ? [args?: Args<DB, F>, call?: CallOptions]
      : [args: Args<DB, F>, call?: CallOptions]
  ): Promise<Returns<DB, F>>
  graphql<Data = Record<string, unknown>>(
    query: string,
    variables?: Readonly<Record<string, unknown>>,
    call?: CallOptions,
  ): Promise<Data>
  /** Anything that has no method here. Its failures are those of all calls; it is repeated if it only reads. */
  request<Answer = unknown>(method: Method, path: string, request?: RequestOptions, call?: CallOptions): Promise<Answer>
}

const TYPES = { csv: 'text/csv', json: 'application/json', ndjson: 'application/x-ndjson' }

/** Not in a path only a composite key is encoded. */
const idOf = (key: unknown): string => (Array.isArray(key) ? keyText(key) : String(key))

type Query = Readonly<Record<string, unknown>> & { filter?: object }

/** Names of the server's parameters; those that are not here have the same. */
const parameters = ({ filter, typoThreshold, ...others }: Query): Record<string, unknown> => ({
  filter: filterText(filter),
  typo_threshold: typoThreshold,
  ...others,
})

export function rowsOf(core: Core, table: string) {
  const path = `/api/collections/${segment(table)}`
  const rowPath = (key: unknown): string => `${path}/${keyText(key) || '.'}`
  const get = <T>(query: Query, call?: CallOptions): Promise<T> =>
    core.send('GET', path, { query: parameters(query) }, call)
  const write = <T>(method: Method, at: string, body: unknown, call?: CallOptions, query?: Query): Promise<T> =>
    core.send(method, at, { body, repeat: 'key', query }, call)

  const list = (query: Query = {}, call?: CallOptions) => get<Page<unknown> & CursorPage<unknown>>(query, call)
  const readOne = (key: unknown, query?: Query, call?: CallOptions) => core.send('GET', rowPath(key), { query }, call)

  async function aggregate(
    { group, filter, sort, page, perPage, ...wanted }: Query,
    call?: CallOptions,
  ): Promise<unknown[]> {
    const functions = Object.entries(wanted).flatMap(([name, columns]) => {
      const sqlName = name === 'countDistinct' ? 'count_distinct' : name
      return Array.isArray(columns) ? columns.map((column) => `${sqlName}(${column})`) : columns ? [sqlName] : []
    })
    const query = { aggregate: functions, group, filter, sort, page, perPage } as unknown as Query
    return (await get<Page<unknown>>(query, call)).items
  }

  return {
    list,
    first: async (query?: Query, call?: CallOptions) =>
      (await list({ total: 'none', ...query, perPage: 1 }, call)).items[0] ?? null,
    async *each(query: Query = {}, call?: CallOptions) {
      for (let cursor: string | null = ''; cursor !== null; ) {
        const page: CursorPage<unknown> = await list({ perPage: 200, ...query, cursor }, call)
        yield* page.items
        cursor = page.nextCursor
      }
    },
    get: readOne,
    find: (key: unknown, query?: Query, call?: CallOptions) =>
      readOne(key, query, call).catch((error: unknown) => {
        if ((error as Partial<ApiError> | undefined)?.error === 'record_not_found') return null
        throw error
      }),
    create: (row: object, call?: CallOptions) => write('POST', path, row, call),
    upsert: (row: object, options: Query, call?: CallOptions) => write('POST', path, row, call, options),
    update: (key: unknown, change: object, call?: CallOptions) => write('PATCH', rowPath(key), change, call),
    delete: (key: unknown, call?: CallOptions) => write('DELETE', rowPath(key), undefined, call),
    op: {
      create: (body: object) => ({ method: 'create', body }),
      upsert: (body: object, { onConflict, ...options }: Query) => ({
        ...{ method: 'upsert', body, onConflict: String(onConflict) },
        ...options,
      }),
      update: (key: unknown, body: object) => ({ method: 'update', id: idOf(key), body }),
      delete: (key: unknown) => ({ method: 'delete', id: idOf(key) }),
    },
    batch: async (operations: readonly object[], call?: CallOptions) => {
      const results = await write<{ body?: unknown }[]>('POST', `${path}/batch`, { operations }, call)
      return call?.dryRun ? results : results.map(({ body = null }) => body)
    },
    count: async ({ filter }: Query = {}, call?: CallOptions) =>
      ((await aggregate({ count: true, filter } as Query, call)) as { count: number }[])[0]?.count ?? 0,
    aggregate,
    search: (text: string, query?: Query, call?: CallOptions) => get({ ...query, search: text }, call),
    near: ({ column, text, vector, ...query }: Query, call?: CallOptions) =>
      get(
        { ...query, vector_column: column, semantic_query: text, nearest: vector && JSON.stringify(vector) } as Query,
        call,
      ),
    async import(rows: unknown, options: Query & { onProgress?: OnProgress } = {}, call?: CallOptions) {
      const { format, dryRun, onProgress, ...query } = options
      const isRows = Array.isArray(rows)
      const { type, name = '' } = rows as { type?: string; name?: string }
      const named = (format ?? (isRows ? 'json' : /\w+$/.exec(name)?.[0])) as Format
      const request = {
        body: rows,
        ...(!isRows && { type: TYPES[named] ?? (type || TYPES.csv) }),
        query: { ...query, dry_run: dryRun },
        repeat: 'key',
        fetch: onProgress && core.counting?.(onProgress),
      } as const
      return core.send('POST', `${path}/import`, request, call)
    },
    async export({ format = 'csv', ...query }: Query = {}, call?: CallOptions) {
      const request = { query: parameters(query), as: 'response' } as const
      return (await core.send<Response>('GET', `${path}/export.${format}`, request, call)).body
    },
  }
}

export function dataOf<DB>(core: Core): DataClient<DB> {
  return {
    core,
    from: (table) => rowsOf(core, table) as never,
    rpc: (name, ...[args, call]) =>
      core.send('POST', `/api/rpc/${segment(name)}`, { body: args ?? {}, repeat: 'key' }, call as CallOptions),
    async graphql(query, variables, call) {
      // What may change something is not sent twice.
      const repeat = /\bmutation\b/.test(query) ? undefined : 'read'
      const request: Request = { body: { query, variables }, repeat }
      type Answer = { data: never; errors?: { message: string; extensions?: { code?: number; error?: string } }[] }
      const { data, errors } = await core.send<Answer>('POST', '/api/graphql', request, call)
      const [first] = errors ?? []
      if (!first) return data
      const { code: status = 400, error = '' } = first.extensions ?? {}
      throw new ApiError(first.message, { status, error, data: { errors, data }, method: 'POST', path: '/api/graphql' })
    },
    request: (method, path, request, call) => core.send(method, path, request, call),
  }
}

/** Rows, functions and GraphQL, without accounts, realtime and files. */
export const createClient = <DB = AnyDatabase>(url: string, options?: Options): DataClient<DB> =>
  dataOf(createCore(url, options))

export { ApiError, NetworkError, SessionEnded } from './errors.ts'
export { where } from './filter.ts'
