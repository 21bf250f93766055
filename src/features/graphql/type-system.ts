import {
  GraphQLBoolean,
  GraphQLEnumType,
  type GraphQLFieldConfig,
  type GraphQLFieldConfigMap,
  GraphQLInputObjectType,
  type GraphQLInputType,
  GraphQLInt,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  type GraphQLOutputType,
  GraphQLSchema,
  GraphQLString,
} from 'graphql'
import type { TimeSlice } from '../../core/time-slice.ts'
import { isIncomparable, isSortable } from '../../db/schema/filter/operators.ts'
import type { Column } from '../../db/schema/snapshot.ts'
import { SPATIAL_NAMES } from '../../db/schema/spatial/parse.ts'
import { isSpatial } from '../../db/schema/spatial-conversion.ts'
import { JsonScalar, scalarOf } from './document/scalars.ts'
import { CURSOR, enumLabels, type NamedTable, type Names, type Verb } from './names.ts'
import { hasUniqueKeys, onConflictType } from './on-conflict.ts'

/** What a field stands for. It is stored in the field's extensions and read by the compiler. */
export type FieldMeaning =
  | { readonly kind: 'rows'; readonly of: NamedTable }
  | { readonly kind: 'column'; readonly column: Column }
  | { readonly kind: 'relation'; readonly name: string; readonly of: NamedTable }
  | { readonly kind: Verb; readonly of: NamedTable }
  | { readonly kind: 'affected_rows' | 'returning' | 'cursor' | 'nothing' }

export type Roots = {
  readonly query: GraphQLObjectType
  readonly subscription: GraphQLObjectType
  readonly mutation?: GraphQLObjectType
}

type Field = GraphQLFieldConfig<unknown, unknown>

const OrderBy = new GraphQLEnumType({ name: 'OrderBy', values: { ASC: {}, DESC: {} } })

const CURSOR_FIELD: Field = {
  type: GraphQLString,
  description:
    'The place of the row in its list: give it as `after` to continue behind it. Null outside of lists of queries.',
  extensions: { kind: 'cursor' } satisfies FieldMeaning,
}

const NO_TABLES: Field = {
  type: GraphQLBoolean,
  description: 'There are no tables yet. Always null.',
  extensions: { kind: 'nothing' } satisfies FieldMeaning,
}

const VERBS: readonly Verb[] = ['insert', 'update', 'delete']
const COMPARISONS = ['_eq', '_neq', '_gt', '_gte', '_lt', '_lte'] as const
const nonNull = (type: GraphQLInputType): GraphQLInputType => new GraphQLNonNull(type)
const listOf = (type: GraphQLInputType): GraphQLInputType => new GraphQLList(new GraphQLNonNull(type))

/**
 * The types of some tables. A document is validated against the tables that it names, because making the types of a
 * thousand tables takes longer than answering most documents.
 */
export class TypeSystem {
  readonly #names: Names
  readonly #writes = new Map<NamedTable, GraphQLFieldConfigMap<unknown, unknown>>()
  readonly #tables: ReadonlySet<NamedTable>
  #schema: GraphQLSchema | undefined
  readonly #types = new Map<string, GraphQLObjectType | GraphQLInputObjectType | GraphQLEnumType>()

  constructor(names: Names, tables: Iterable<NamedTable>) {
    this.#names = names
    this.#tables = new Set(tables)
  }

  /** Of every table that a document of this system can name. */
  get oids(): number[] {
    return [...this.#tables].map(({ table }) => table.oid)
  }

  get schema(): GraphQLSchema {
    // Names are checked already. Without fields the roots refuse what the document asks of tables that are not there.
    const mutation = new GraphQLObjectType({ name: 'Mutation', fields: {} })
    const isEmpty = !this.#names.all().some(({ isReadable }) => isReadable)
    this.#schema ??= new GraphQLSchema({ mutation, ...this.#roots(isEmpty), assumeValid: true })
    return this.#schema
  }

  #roots(isWhole: boolean): Roots {
    const writable = [...this.#tables].filter((named) => VERBS.some((verb) => named.offers(verb)))
    return {
      query: new GraphQLObjectType({ name: 'Query', fields: () => this.#queries(isWhole) }),
      subscription: new GraphQLObjectType({ name: 'Subscription', fields: () => this.#queries(isWhole) }),
      ...(writable.length > 0 && {
        mutation: new GraphQLObjectType({ name: 'Mutation', fields: () => this.#mutations(writable) }),
      }),
    }
  }

  /** The roots of all that a caller may know. Yields while it makes the types. */
  async inSlices(slice: TimeSlice): Promise<Roots> {
    for (const named of this.#tables) {
      const types = named.isReadable ? [this.#object(named), this.#where(named), this.#orderBy(named)] : []
      for (const type of types) type.getFields()
      this.#mutationsOf(named)
      await slice.yieldIfOver()
    }
    return this.#roots(true)
  }

  #queries(isWhole: boolean): GraphQLFieldConfigMap<unknown, unknown> {
    const fields: Record<string, Field> = {}
    for (const named of this.#tables) {
      if (named.isReadable) fields[named.field] = this.#rows(named, { kind: 'rows', of: named })
    }
    // A type must have a field (GraphQL specification, section 3.6).
    if (isWhole && Object.keys(fields).length === 0) fields['no_tables'] = NO_TABLES
    return fields
  }

  #mutations(tables: readonly NamedTable[]): GraphQLFieldConfigMap<unknown, unknown> {
    return Object.assign({}, ...tables.map((named) => this.#mutationsOf(named)))
  }

  #mutationsOf(named: NamedTable): GraphQLFieldConfigMap<unknown, unknown> {
    const known = this.#writes.get(named)
    if (known) return known
    const type = this.#response(named)
    const where = () => ({ where: { type: nonNull(this.#where(named)) } })
    const argsOf: Record<Verb, () => Record<string, { type: GraphQLInputType }>> = {
      insert: () => ({ objects: { type: nonNull(listOf(this.#insertInput(named))) }, ...this.#onConflict(named) }),
      update: () => ({ ...where(), ...this.#changes(named) }),
      delete: where,
    }
    const fields: Record<string, Field> = {}
    for (const verb of VERBS) {
      if (!named.offers(verb)) continue
      const extensions: FieldMeaning = { kind: verb, of: named }
      fields[`${verb}_${named.field}`] = { type, args: argsOf[verb](), extensions }
    }
    this.#writes.set(named, fields)
    return fields
  }

  #once<T extends GraphQLObjectType | GraphQLInputObjectType | GraphQLEnumType>(
    name: string,
    make: (name: string) => T,
  ): T {
    const known = this.#types.get(name)
    if (known) return known as T
    const made = make(name)
    this.#types.set(name, made)
    return made
  }

  /** A list of rows with the arguments of every list. */
  #rows(named: NamedTable, meaning: FieldMeaning): Field {
    return {
      type: new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(this.#object(named)))),
      args: {
        where: { type: this.#where(named) },
        order_by: { type: listOf(this.#orderBy(named)) },
        limit: { type: GraphQLInt },
        offset: { type: GraphQLInt },
        first: { type: GraphQLInt },
        after: { type: GraphQLString },
        ...this.#regions(named),
      },
      extensions: meaning,
    }
  }

  /** Spatial filters, if the table has spatial columns. */
  #regions(named: NamedTable): Record<string, { type: GraphQLInputType }> {
    const columns = [...named.columns.values()].filter(isSpatial)
    if (columns.length === 0) return {}
    const type = this.#once(this.#names.typeName(`${named.typeName}_places`), (name) => {
      const fields = Object.fromEntries(columns.map((column) => [column.name, { type: GraphQLString }]))
      return new GraphQLInputObjectType({ name, fields })
    })
    return Object.fromEntries(SPATIAL_NAMES.map((name) => [name, { type }]))
  }

  #object(named: NamedTable): GraphQLObjectType {
    return this.#once(named.typeName, (name) => {
      const fields = (): Record<string, Field> => {
        const made: Record<string, Field> = {}
        for (const column of named.columns.values()) {
          made[column.name] = {
            type: this.#output(column),
            ...(column.comment !== undefined && { description: column.comment }),
            extensions: { kind: 'column', column } satisfies FieldMeaning,
          }
        }
        for (const [relation, target] of this.#relations(named)) {
          const meaning: FieldMeaning = { kind: 'relation', name: relation, of: target }
          const isOne = named.relations.get(relation)?.relation.type === 'many-to-one'
          made[relation] = isOne ? { type: this.#object(target), extensions: meaning } : this.#rows(target, meaning)
        }
        if (named.hasCursor) made[CURSOR] = CURSOR_FIELD
        return made
      }
      const { comment } = named.table
      return new GraphQLObjectType({ name, fields, ...(comment !== undefined && { description: comment }) })
    })
  }

  /** Relations that lead to a table of this type system. */
  #relations(named: NamedTable): [string, NamedTable][] {
    return [...named.relations].flatMap(([name, { target }]): [string, NamedTable][] => {
      const of = this.#names.of(target)
      return of && this.#tables.has(of) ? [[name, of]] : []
    })
  }

  #output(column: Column): GraphQLOutputType {
    const element = this.#enum(column) ?? scalarOf(column)
    const type = column.isArray ? new GraphQLList(element) : element
    return column.nullable ? type : new GraphQLNonNull(type)
  }

  #input(column: Column): GraphQLInputType {
    const element = this.#enum(column) ?? scalarOf(column)
    return column.isArray ? new GraphQLList(element) : element
  }

  #enum(column: Column): GraphQLEnumType | undefined {
    const labels = column.isArray ? undefined : enumLabels(column)
    if (!labels) return undefined
    const name = this.#names.enumName(column)
    return this.#once(name, () => {
      return new GraphQLEnumType({ name, values: Object.fromEntries(labels.map((label) => [label, {}])) })
    })
  }

  #where(named: NamedTable): GraphQLInputObjectType {
    return this.#once(this.#names.typeName(`${named.typeName}_where`), (name): GraphQLInputObjectType => {
      // Columns and relations that are called like these three cannot be compared.
      const fields = () => ({
        ...Object.fromEntries(
          [...named.columns.values()].map((column) => [column.name, { type: this.#comparison(column) }]),
        ),
        ...Object.fromEntries(this.#relations(named).map(([relation, to]) => [relation, { type: this.#where(to) }])),
        _and: { type: listOf(this.#where(named)) },
        _or: { type: listOf(this.#where(named)) },
        _not: { type: this.#where(named) },
      })
      return new GraphQLInputObjectType({ name, fields })
    })
  }

  #comparison(column: Column): GraphQLInputObjectType {
    const type = this.#input(column)
    const isNull = { _is_null: { type: GraphQLBoolean } }
    if (isIncomparable(column)) {
      return this.#once(
        this.#names.typeName('null_comparison'),
        (name) => new GraphQLInputObjectType({ name, fields: isNull }),
      )
    }
    const base = String(type).replace(/^\[(.*)\]$/, '$1_list')
    return this.#once(this.#names.typeName(`${base}_comparison`), (name) => {
      const compared = Object.fromEntries(COMPARISONS.map((operator) => [operator, { type }]))
      const fields = {
        ...compared,
        _in: { type: listOf(type) },
        _nin: { type: listOf(type) },
        _like: { type: GraphQLString },
        _ilike: { type: GraphQLString },
        ...isNull,
      }
      return new GraphQLInputObjectType({ name, fields })
    })
  }

  #orderBy(named: NamedTable): GraphQLInputObjectType {
    return this.#once(this.#names.typeName(`${named.typeName}_order_by`), (name) => {
      const sortable = [...named.columns.values()].filter(isSortable)
      const fields = Object.fromEntries(sortable.map((column) => [column.name, { type: OrderBy }]))
      return new GraphQLInputObjectType({ name, fields })
    })
  }

  #response(named: NamedTable): GraphQLObjectType {
    return this.#once(this.#names.typeName(`${named.typeName}_mutation_response`), (name) => {
      return new GraphQLObjectType({
        name,
        fields: {
          affected_rows: {
            type: new GraphQLNonNull(GraphQLInt),
            extensions: { kind: 'affected_rows' } satisfies FieldMeaning,
          },
          ...(named.isReadable && {
            returning: {
              type: new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(this.#object(named)))),
              extensions: { kind: 'returning' } satisfies FieldMeaning,
            },
          }),
        },
      })
    })
  }

  #columnsInput(named: NamedTable, suffix: string, columns: readonly Column[]): GraphQLInputObjectType | undefined {
    if (columns.length === 0) return undefined
    return this.#once(this.#names.typeName(`${named.typeName}_${suffix}`), (name) => {
      const fields = Object.fromEntries(columns.map((column) => [column.name, { type: this.#input(column) }]))
      return new GraphQLInputObjectType({ name, fields })
    })
  }

  #insertInput(named: NamedTable): GraphQLInputObjectType {
    const made = this.#columnsInput(named, 'insert_input', [...named.writable('insert').values()])
    if (!made) throw new TypeError(`table ${named.field} has no columns`)
    return made
  }

  #onConflict(named: NamedTable): Record<string, { type: GraphQLInputType }> {
    if (!hasUniqueKeys(named)) return {}
    const free = (suffix: string): string => this.#names.typeName(`${named.typeName}_${suffix}`)
    return { on_conflict: { type: this.#once(free('on_conflict'), (name) => onConflictType(named, name, free)) } }
  }

  #changes(named: NamedTable): Record<string, { type: GraphQLInputType }> {
    const columns = [...named.writable('update').values()]
    // What is added to is read.
    const known = columns.filter(({ name }) => named.columns.has(name))
    const isNumber = ({ baseType, isArray }: Column): boolean =>
      !isArray && /^(int[248]|float[48]|numeric)$/.test(baseType)
    const asJson = known.filter(({ baseType }) => baseType === 'jsonb')
    const inputs: [string, GraphQLInputType | undefined][] = [
      ['_set', this.#columnsInput(named, 'set_input', columns)],
      ['_inc', this.#columnsInput(named, 'inc_input', known.filter(isNumber))],
      ['_append', this.#jsonInput(named, asJson)],
      ['_prepend', this.#jsonInput(named, asJson)],
    ]
    return Object.fromEntries(inputs.flatMap(([name, type]) => (type ? [[name, { type }]] : [])))
  }

  #jsonInput(named: NamedTable, columns: readonly Column[]): GraphQLInputObjectType | undefined {
    if (columns.length === 0) return undefined
    return this.#once(this.#names.typeName(`${named.typeName}_json_input`), (name) => {
      const fields = Object.fromEntries(columns.map((column) => [column.name, { type: JsonScalar }]))
      return new GraphQLInputObjectType({ name, fields })
    })
  }
}
