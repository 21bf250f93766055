import type { DatabaseRole } from '../../core/identity.ts'
import type { Ident, Sql } from '../sql.ts'

/** The database's schema as one immutable value. A request reads it once and uses it to its end. */
export type Schema = {
  /** Keyed `schema.table`, in catalogue order. */
  readonly tables: ReadonlyMap<string, Table>
  /** svc.objects: policies and streams take it, and it is no collection. */
  readonly objects: Table | undefined
  /** Keyed `schema.name`; every overload, fewest parameters first. */
  readonly functions: ReadonlyMap<string, readonly Fn[]>
  /** Exposed schemas in lookup order. */
  readonly schemas: readonly string[]
  readonly postGIS: { version: string; schema: string } | undefined
  readonly pgVector: { version: string; schema: string } | undefined
  readonly pgTrgm: { version: string; schema: string } | undefined
  /** PostgreSQL's server_version_num, e.g. 150018. */
  readonly serverVersion: number
  /** How expressions name the caller's id: `svc.uid()`, in an adopted database `auth.uid()` too. */
  readonly callerIds: readonly string[]
  /** Warnings for the operator, e.g. about views without security_invoker over RLS tables. */
  readonly warnings: readonly string[]
  readonly builtAt: Date
}

export type TableKind = 'table' | 'view' | 'materialized_view' | 'partitioned_table' | 'foreign_table'
export type Privilege = 'select' | 'insert' | 'update' | 'delete'

/** The privileges of each request role; role `none` (the server itself) has all. */
export type Privileges<P extends Privilege> = Readonly<Record<Exclude<DatabaseRole, 'none'>, ReadonlySet<P>>>

export type Table = {
  readonly schema: string
  readonly name: string
  /** Schema-qualified. */
  readonly ident: Ident
  readonly oid: number
  readonly kind: TableKind
  /** What is read in its place: its rows of another time. */
  readonly rowsThen?: Sql
  readonly comment: string | undefined
  readonly columns: ReadonlyMap<string, Column>
  readonly primaryKey: readonly Column[]
  readonly foreignKeys: readonly ForeignKey[]
  /** Both directions, with the names that expand and filter paths use. */
  readonly relations: readonly Relation[]
  readonly checkConstraints: readonly { name: string; definition: string }[]
  readonly indexes: readonly Index[]
  /** Unique indexes usable in ON CONFLICT: valid, not deferrable, on plain columns and all rows, compared by equality. */
  readonly uniqueKeys: readonly { readonly name: string; readonly columns: readonly string[] }[]
  readonly rlsEnabled: boolean
  readonly rlsPolicies: readonly Policy[]
  /** Table-level or any column-level privilege. */
  readonly privileges: Privileges<Privilege>
  /** Roles that may SELECT the table as a whole. Grants of columns, even of all of them, do not reach `ctid`. */
  readonly wholeFor: ReadonlySet<DatabaseRole>
  /** False for materialized views, views PostgreSQL cannot update by itself, and where rules return no rows. */
  readonly insertable: boolean
  readonly updatable: boolean
  readonly hasRules: boolean
  /** A trigger of svc.watch() writes the change log, so the API must not append too. */
  readonly watched: boolean
  /** A write to it, or to rows that a foreign key changes with it, may run triggers or functions of the operator. */
  readonly runsUserCode: boolean
}

export type Column = ColumnType & {
  readonly name: string
  readonly ident: Ident
  readonly position: number
  readonly nullable: boolean
  readonly default: string | undefined
  readonly comment: string | undefined
  readonly isPrimaryKey: boolean
  /** GENERATED ALWAYS (stored, virtual or identity): PostgreSQL refuses explicit values. */
  readonly isGenerated: boolean
  /** How PostgreSQL computes it from other columns of its row. */
  readonly generation: Generation | undefined
  /** GENERATED … AS IDENTITY of either kind. */
  readonly isIdentity: boolean
  readonly privileges: Privileges<'select' | 'insert' | 'update'>
}

export type Generation = {
  /** The oid of its definition; another expression is another definition. */
  readonly definition: number
  readonly expression: string
  /** Computed when it is read. Triggers see null. */
  readonly isVirtual: boolean
  /** The columns in the expression; for virtual ones only. */
  readonly reads: readonly string[]
}

/** What depends on the type of a column alone. */
export type ColumnType = {
  /** Formatted SQL type, e.g. `character varying(20)`, `integer[]`. */
  readonly type: string
  /** Schema-qualified type name without modifiers, usable in a cast; domains keep their own name. */
  readonly castType: Ident
  /** pg_type.typname of the base type (domains resolved), e.g. `int4`, `_text`, `geometry`. */
  readonly baseType: string
  /** pg_type.typtype of the base type: b base, e enum, c composite, r range, m multirange. */
  readonly typeKind: string
  readonly isArray: boolean
  /** Of an array: the base type of its elements, domains resolved. */
  readonly element: ElementType | undefined
  /** text, varchar, char (or a domain over one): searched by full-text search. */
  readonly isText: boolean
  readonly isGeometry: boolean
  readonly isGeography: boolean
  readonly isVector: boolean
  readonly vectorDim: number | undefined
  readonly geometryType: string
  readonly srid: number
  readonly coordDimension: number | undefined
  readonly jsonType: 'boolean' | 'integer' | 'number' | 'object' | 'array' | 'string'
  /** Of an enum, or of the elements of an array of one. */
  readonly enumValues: readonly string[] | undefined
  /** Those of its own, where the search path does not lead to them. */
  readonly operators: Operators | undefined
  /** A domain that is NOT NULL: PostgreSQL checks it wherever a row is made. */
  readonly notNull: boolean
  /** False: `jsonb_populate_record` does not read the JSON that PostgreSQL writes of its values. */
  readonly readsBack: boolean
}

export type Comparison = '=' | '!=' | '>' | '>=' | '<' | '<='
export type Operators = Readonly<Partial<Record<Comparison, Sql>>>

export type ElementType = Pick<ColumnType, 'baseType' | 'typeKind' | 'isArray'>

/** What decides the JSON form of a type. */
export type JsonForm = Pick<
  Column,
  'isGeometry' | 'isGeography' | 'isVector' | 'srid' | 'castType' | 'baseType' | 'isArray' | 'element'
>

/** The type of a value that a function takes or returns. */
export type ValueType = JsonForm & Pick<ColumnType, 'type' | 'typeKind' | 'enumValues'>

export type ForeignKey = {
  readonly constraintName: string
  readonly columns: readonly string[]
  readonly referencedSchema: string
  readonly referencedTable: string
  readonly referencedColumns: readonly string[]
  readonly onUpdate: string
  readonly onDelete: string
}

/** A foreign key, from one of its two tables to the other. */
export type Relation = {
  /** The foreign key's constraint name. */
  readonly constraint: string
  readonly type: 'many-to-one' | 'one-to-many'
  /** The key in `expand`: FK column without `_id` (many-to-one), child table or `<table>_via_<column>` (one-to-many). */
  readonly fieldName: string
  /** Every name a client may use for it: fieldName, FK column, constraint name, bare child table for the first FK. */
  readonly names: readonly string[]
  readonly fromColumns: readonly string[]
  /** Key of Schema.tables. */
  readonly to: string
  readonly toColumns: readonly string[]
}

export type Index = {
  readonly name: string
  readonly isUnique: boolean
  readonly isPrimary: boolean
  readonly method: string
  readonly columns: readonly string[]
  readonly definition: string
}

export type Policy = {
  readonly name: string
  readonly command: string
  readonly permissive: boolean
  readonly roles: readonly string[]
  /** The roles of callers that it is for, by themselves or as members. */
  readonly callers: readonly string[]
  readonly usingExpr: string | null
  readonly withCheckExpr: string | null
}

export type Fn = {
  readonly schema: string
  readonly name: string
  readonly ident: Ident
  readonly oid: number
  readonly comment: string | undefined
  /** IN, INOUT and VARIADIC parameters in order. */
  readonly parameters: readonly Parameter[]
  /** Formatted; `TABLE(…)` and OUT lists as PostgreSQL writes them. */
  readonly returnType: string
  readonly returnsSet: boolean
  readonly isVoid: boolean
  /** The result is a row (composite type, record, TABLE or several OUT parameters), not a scalar. */
  readonly returnsRow: boolean
  /** The table whose rows it returns, if it is in the snapshot. */
  readonly rowOf: Table | undefined
  /** OUT, INOUT and TABLE parameters in order; empty when the result type defines the columns. */
  readonly columns: readonly (ValueType & { readonly name: string })[]
  /** Of the result, or of each row of a set; undefined for pseudo-types. */
  readonly resultForm: ValueType | undefined
  readonly volatility: 'immutable' | 'stable' | 'volatile'
  /** Request roles that hold EXECUTE. */
  readonly executableBy: ReadonlySet<Exclude<DatabaseRole, 'none'>>
}

export type Parameter = ValueType & {
  /** Empty when unnamed. */
  readonly name: string
  readonly ident: Ident
  readonly position: number
  readonly hasDefault: boolean
  readonly isVariadic: boolean
  /** As PostgreSQL writes it; of functions with VARIADIC alone. */
  readonly default: string | undefined
}

export interface SchemaCache {
  /** The current snapshot; throws 503 `schema cache not ready` before the first load. */
  read(): Schema
  /** Loads a new snapshot. The load begins after the call; calls during a load share the next one. */
  reload(): Promise<Schema>
  /**
   * For a name that was not found: resolves to a snapshot no older than this call, loading a new one only when the
   * catalogue changed. Calls share checks, so a flood of misses costs the database a few cheap queries a second.
   */
  refreshIfStale(): Promise<Schema>
  /** Called with each new snapshot. */
  onChange(listener: (schema: Schema) => void): void
}
