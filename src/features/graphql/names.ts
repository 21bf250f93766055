import type { DatabaseRole } from '../../core/identity.ts'
import { isVisible, mayDo } from '../../db/schema/lookup.ts'
import type { Column, Schema, Table } from '../../db/schema/snapshot.ts'
import { columnsFor, keyFor, type RelationStep, relationFor, writableColumns } from '../../db/schema/viewer.ts'

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/
/** A valid GraphQL name that is not reserved. */
const isLegal = (name: string): boolean => NAME.test(name) && !name.startsWith('__')
/** A name of a type in PostgreSQL as one of GraphQL. */
const legalType = (name: string): string =>
  name
    .replace(/\W/g, '_')
    .replace(/^(?=\d)/, '_')
    .replace(/^__+/, '_')
const LABEL_WORDS = new Set(['true', 'false', 'null'])

/** The labels of an enum if all are valid in GraphQL; otherwise undefined, and the column is a String. */
export function enumLabels({ enumValues }: Column): readonly string[] | undefined {
  if (enumValues === undefined || enumValues.length === 0) return undefined
  return enumValues.every(isEnumValue) ? enumValues : undefined
}

export const isEnumValue = (label: string): boolean => isLegal(label) && !LABEL_WORDS.has(label)

/** The field with the cursor of a row. */
export const CURSOR = '_cursor'

export type Verb = 'insert' | 'update' | 'delete'

type Columns = ReadonlyMap<string, Column>
const legal = (columns: readonly Column[]): Columns =>
  new Map(columns.filter(({ name }) => isLegal(name)).map((column) => [column.name, column]))

/** A table as GraphQL shows it to a role, without columns and relations whose names are not valid. */
export class NamedTable {
  readonly table: Table
  /** Its field in Query; mutations prefix it with a verb. */
  readonly field: string
  readonly typeName: string
  readonly #schema: Schema
  readonly #role: DatabaseRole
  #columns: Columns | undefined
  readonly #writable: Partial<Record<'insert' | 'update', Columns>> = {}
  #relations: ReadonlyMap<string, RelationStep> | undefined

  constructor(table: Table, names: { field: string; typeName: string }, schema: Schema, role: DatabaseRole) {
    this.table = table
    this.field = names.field
    this.typeName = names.typeName
    this.#schema = schema
    this.#role = role
  }

  get columns(): Columns {
    this.#columns ??= legal(columnsFor(this.table, this.#role))
    return this.#columns
  }

  /** What an insert or update may give, also what the role cannot read. */
  writable(how: 'insert' | 'update'): Columns {
    this.#writable[how] ??= legal(writableColumns(this.table, this.#role, how))
    return this.#writable[how]
  }

  /** By the names of `expand`. A column wins over a relation of the same name. */
  get relations(): ReadonlyMap<string, RelationStep> {
    this.#relations ??= new Map(
      this.table.relations.flatMap((relation): [string, RelationStep][] => {
        const step = relationFor(this.#schema, this.table, relation.fieldName, this.#role)
        if (!step) return []
        const names = new Set([relation.fieldName])
        // The bare name of a child table is its first foreign key to this table.
        if (relation.type === 'one-to-many' && relation.names.includes(step.target.name)) names.add(step.target.name)
        return [...names].filter((name) => isLegal(name) && !this.columns.has(name)).map((name) => [name, step])
      }),
    )
    return this.#relations
  }

  /** Rows of a table with a key have a cursor. A column or relation of the same name wins. */
  get hasCursor(): boolean {
    return keyFor(this.table, this.#role).length > 0 && !this.columns.has(CURSOR) && !this.relations.has(CURSOR)
  }

  get isReadable(): boolean {
    return this.columns.size > 0
  }

  /** Whether the role has the mutation. What it may not read it cannot find, so it can insert there alone. */
  offers(verb: Verb): boolean {
    if (!this.#takes(verb) || !mayDo(this.table, this.#role, verb)) return false
    return (verb === 'insert' || this.isReadable) && (verb === 'delete' || this.writable(verb).size > 0)
  }

  /** Whether it is the role alone that keeps the mutation from being offered. */
  refuses(verb: Verb): boolean {
    return this.#takes(verb) && !mayDo(this.table, this.#role, verb)
  }

  /** Views have no mutations, nor has what rules rewrite. */
  #takes(verb: Verb): boolean {
    const { kind, insertable, updatable, hasRules } = this.table
    const isStored = kind !== 'view' && kind !== 'materialized_view'
    return isStored && ((verb === 'insert' ? insertable : updatable) || !hasRules)
  }
}

/** Names of types that tables cannot have. */
const TAKEN = new Set(
  'Query Mutation Subscription Int Float String Boolean ID BigInt Numeric UUID Timestamptz Date JSON Bytea Geometry Vector OrderBy'.split(
    ' ',
  ),
)

/** The schema of a type. */
const SCHEMA_OF = /^"((?:[^"]|"")*)"\./

/** The GraphQL names of the tables of a snapshot, for one role. */
export class Names {
  readonly #byField = new Map<string, NamedTable>()
  readonly #byTable = new Map<Table, NamedTable>()
  readonly #typeNames = new Set<string>(TAKEN)
  #enums: ReadonlyMap<string, string> | undefined

  constructor(schema: Schema, role: DatabaseRole) {
    const bySchema = (name: string): Table[] => [...schema.tables.values()].filter((table) => table.schema === name)
    const visible = schema.schemas.flatMap(bySchema).filter((table) => isVisible(table, role))
    const fields = new Map<string, Table>()
    for (const table of visible) {
      const field = fields.has(table.name) ? `${table.schema}_${table.name}` : table.name
      if (isLegal(field) && !fields.has(field)) fields.set(field, table)
    }
    for (const field of fields.keys()) this.#typeNames.add(field)
    for (const [field, table] of fields) {
      const typeName = TAKEN.has(field) ? this.typeName(`${field}_row`) : field
      const named = new NamedTable(table, { field, typeName }, schema, role)
      if (!named.isReadable && !named.offers('insert')) continue
      this.#byField.set(field, named)
      this.#byTable.set(table, named)
      this.#typeNames.add(typeName)
    }
  }

  field(name: string): NamedTable | undefined {
    return this.#byField.get(name)
  }
  of(table: Table): NamedTable | undefined {
    return this.#byTable.get(table)
  }
  all(): NamedTable[] {
    return [...this.#byField.values()]
  }

  /** The name of the enum of a column: of several types with one name, the first one found has it alone. */
  enumName(column: Column): string {
    this.#enums ??= this.#nameEnums()
    return this.#enums.get(column.castType.quoted) ?? this.typeName(legalType(`${column.baseType}_enum`))
  }

  #nameEnums(): ReadonlyMap<string, string> {
    const byType = new Map<string, string>()
    const labelsOf = new Map<string, string>()
    for (const named of this.all()) {
      const columns = [named.columns, named.writable('insert'), named.writable('update')]
      for (const column of columns.flatMap((some) => [...some.values()])) {
        const labels = column.isArray ? undefined : enumLabels(column)?.join(' ')
        if (labels === undefined || byType.has(column.castType.quoted)) continue
        const schema = SCHEMA_OF.exec(column.castType.quoted)?.[1] ?? ''
        let name = this.typeName(legalType(`${column.baseType}_enum`))
        if ((labelsOf.get(name) ?? labels) !== labels)
          name = this.typeName(legalType(`${schema}_${column.baseType}_enum`))
        while ((labelsOf.get(name) ?? labels) !== labels) name = this.typeName(`${name}_`)
        labelsOf.set(name, labels)
        byType.set(column.castType.quoted, name)
      }
    }
    return byType
  }

  /** A name for a type that no table has. */
  typeName(base: string): string {
    let name = base
    while (this.#typeNames.has(name)) name += '_'
    return name
  }
}
