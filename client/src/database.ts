import type { Filter } from './filter.ts'

/** What `svc types` writes for a table or view. What cannot be done with it is `never`. */
export type TableType = {
  Row: object
  Insert: object
  Update: object
  /** A value, or the values of a composite key. */
  Key: unknown
  /** Columns that `onConflict` takes, joined with commas. */
  Unique: string
  Relations: Readonly<Record<string, { table: string; many: boolean }>>
}

/** What `svc types` writes. */
export type DatabaseType = {
  tables: { readonly [name: string]: TableType }
  functions: { readonly [name: string]: { Args: object; Returns: unknown } }
}

/** Of any PostgreSQL value. */
type Json = unknown

/** Without generated types: any table, any column. */
export type AnyDatabase = {
  tables: {
    [name: string]: {
      Row: { [column: string]: Json }
      Insert: { [column: string]: Json }
      Update: { [column: string]: Json }
      Key: KeyPart | readonly KeyPart[]
      Unique: string
      Relations: { [name: string]: { table: string; many: boolean } }
    }
  }
  functions: { [name: string]: { Args: { [name: string]: Json }; Returns: Json } }
}

export type KeyPart = string | number | bigint | boolean

/** The tables, as far as their types have the right shape. */
type Tables<DB> = DB extends { tables: infer T } ? T : never
export type TableName<DB> = keyof Tables<DB> & string
type At<DB, T> = T extends keyof Tables<DB> ? Tables<DB>[T] : never
type Part<DB, T, P extends keyof TableType> = At<DB, T> extends { [K in P]: infer Type } ? Type : never

export type Row<DB, T> = Part<DB, T, 'Row'>
export type Insert<DB, T> = Part<DB, T, 'Insert'>
export type Update<DB, T> = Part<DB, T, 'Update'>
export type Key<DB, T> = Part<DB, T, 'Key'>
export type Unique<DB, T> = Part<DB, T, 'Unique'>
export type Column<DB, T> = keyof Row<DB, T> & string

type Relations<DB, T> = Part<DB, T, 'Relations'>
type RelationName<DB, T> = keyof Relations<DB, T> & string
type Target<DB, T, R> = R extends keyof Relations<DB, T>
  ? Relations<DB, T>[R] extends { table: infer Name }
    ? Name
    : never
  : never
type IsMany<DB, T, R> = R extends keyof Relations<DB, T>
  ? Relations<DB, T>[R] extends { many: infer Many }
    ? Many
    : never
  : never

/** P itself if it is a path of relations, else the names there are. */
export type ExpandPath<DB, T, P> = P extends `${infer Head}.${infer Rest}`
  ? Head extends RelationName<DB, T>
    ? `${Head}.${ExpandPath<DB, Target<DB, T, Head>, Rest>}`
    : RelationName<DB, T>
  : P extends RelationName<DB, T>
    ? P
    : RelationName<DB, T>

type Head<P> = P extends `${infer First}.${string}` ? First : P
type Rest<P, H extends string> = P extends `${H}.${infer Others}` ? Others : never

type WithExpand<Row, DB, T, P> = [P] extends [never] ? Row : Row & { expand: Expanded<DB, T, P> }
type Expanded<DB, T, P> = {
  [H in Head<P> & string]: OneOrMany<
    IsMany<DB, T, H>,
    WithExpand<Row<DB, Target<DB, T, H>>, DB, Target<DB, T, H>, Rest<P, H>>
  >
}
type OneOrMany<Many, Row> = Many extends true ? Row[] : Row | null

/** A row with the chosen columns and the relations that are expanded. */
export type Read<DB, T, F, E> = WithExpand<
  [F] extends [never] ? Row<DB, T> : Pick<Row<DB, T>, F & keyof Row<DB, T>>,
  DB,
  T,
  E
>

type Operators<V> = {
  eq?: V
  ne?: V
  gt?: NonNullable<V>
  gte?: NonNullable<V>
  lt?: NonNullable<V>
  lte?: NonNullable<V>
  like?: string
  notLike?: string
  in?: readonly NonNullable<V>[]
}

/** What a column is compared with: dates are sent as text. */
type Comparable<V> = V extends string ? V | Date : V extends bigint | number | boolean | null ? V : never

/** What an object without such a column has under its name: `constructor`, `toString` … */
// biome-ignore lint/complexity/noBannedTypes: it is what every object has
type Inherited<Name> = Name extends keyof Object ? Object[Name] : never

/** Every condition has to hold; `or` takes alternatives. */
export type FilterObject<DB, T> = {
  [C in Column<DB, T>]?:
    | Inherited<C>
    | Comparable<Row<DB, T>[C]>
    | readonly NonNullable<Comparable<Row<DB, T>[C]>>[]
    | Operators<Comparable<Row<DB, T>[C]>>
} & { [R in RelationName<DB, T>]?: Inherited<R> | FilterObject<DB, Target<DB, T, R>> } & {
  or?: readonly (FilterObject<DB, T> | Filter)[]
  and?: readonly (FilterObject<DB, T> | Filter)[]
}

export type FilterOf<DB, T> =
  | Filter
  | (object & (string extends Column<DB, T> ? { [name: string]: unknown } : FilterObject<DB, T>))

/** A column, ascending, or descending after a minus; several in an array or separated by commas. */
type SortColumn<C extends string> = C | `-${C}` | `+${C}`
export type Sort<DB, T> = SortColumn<Column<DB, T>> | readonly SortColumn<Column<DB, T>>[]

type TextNumber<V> = V extends bigint ? string : V
type TextNumbersIn<V> = V extends (infer E)[]
  ? TextNumbersIn<E>[]
  : V extends object
    ? { [K in keyof V]: TextNumbersIn<V[K]> }
    : TextNumber<V>

/** The types of a client with `numbers: 'text'`. */
export type TextNumbers<DB extends DatabaseType> = TextNumbersIn<DB>

type Functions<DB> = DB extends { functions: infer F } ? F : never
export type FunctionName<DB> = keyof Functions<DB> & string
type FunctionPart<DB, F, P extends string> = F extends keyof Functions<DB>
  ? Functions<DB>[F] extends { [K in P]: infer Type }
    ? Type
    : never
  : never
export type Args<DB, F> = FunctionPart<DB, F, 'Args'>
export type Returns<DB, F> = FunctionPart<DB, F, 'Returns'>
