import {
  __Schema,
  type ArgumentNode,
  type DefinitionNode,
  type DocumentNode,
  execute,
  type FieldNode,
  type GraphQLNamedType,
  GraphQLObjectType,
  GraphQLSchema,
  getNamedType,
  isInputObjectType,
  isObjectType,
  Kind,
  type NameNode,
  type SelectionNode,
  type SelectionSetNode,
  type TypeNode,
} from 'graphql'
import { budgets } from '../../core/budgets.ts'
import { AppError } from '../../core/errors.ts'
import { stringifyInSlices, TimeSlice } from '../../core/time-slice.ts'
import { isAllowed } from '../../db/schema/viewer.ts'
import type { NamedTable, Names } from './names.ts'
import type { Compilation } from './query.ts'
import { type SelectedField, selectionOf } from './selection.ts'
import { type Roots, TypeSystem } from './type-system.ts'

/**
 * Answers `__schema` and `__type`. With a thousand tables, making and describing the types takes seconds, so both yield to
 * other requests, and one document is answered at a time. Each type becomes text before the next one is described, because
 * all results together take hundreds of megabytes.
 */
export class Introspection {
  readonly #all = new WeakMap<Names, Promise<AllTypes>>()
  readonly #sliceMs: number | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(sliceMs?: number) {
    this.#sliceMs = sliceMs
  }

  /** The JSON text of each key. Stops early when `isActive` is false. */
  answer(
    compilation: IntrospectionRequest,
    document: DocumentNode,
    fields: readonly SelectedField[],
    isActive: () => boolean,
  ): Promise<Map<string, string>> {
    const work = async (): Promise<Map<string, string>> => {
      const texts = new Map<string, string>()
      if (!isActive()) return texts
      const slice = new TimeSlice(this.#sliceMs)
      const all = await this.#typesFor(compilation, slice)
      const description = new SchemaDescription(all, compilation, document, isActive, slice)
      for (const field of fields) texts.set(field.key, await description.textOf(field))
      return texts
    }
    const answered = this.#last.then(work, work)
    this.#last = answered
    return answered
  }

  #typesFor({ names, schema, viewer }: IntrospectionRequest, slice: TimeSlice): Promise<AllTypes> {
    if (viewer.allowedTables.length > 0) {
      const allowed = names.all().filter(({ table }) => isAllowed(schema, table, viewer))
      return makeAllTypes(names, allowed, slice)
    }
    const known = this.#all.get(names) ?? makeAllTypes(names, names.all(), slice)
    this.#all.set(names, known)
    return known
  }
}

type IntrospectionRequest = Pick<Compilation, 'names' | 'operation' | 'variables' | 'schema' | 'viewer'>

/** Describes the schema for one document. */
class SchemaDescription {
  readonly #all: AllTypes
  readonly #compilation: IntrospectionRequest
  readonly #fragments: readonly DefinitionNode[]
  readonly #isActive: () => boolean
  readonly #slice: TimeSlice
  readonly #schema: GraphQLSchema
  #length = 0

  constructor(
    all: AllTypes,
    compilation: IntrospectionRequest,
    document: DocumentNode,
    isActive: () => boolean,
    slice: TimeSlice,
  ) {
    this.#all = all
    this.#compilation = compilation
    this.#fragments = document.definitions.filter(({ kind }) => kind === Kind.FRAGMENT_DEFINITION)
    this.#isActive = isActive
    this.#slice = slice
    this.#schema = schemaInSlices(all, slice)
  }

  /** The text of `__schema` or `__type`. */
  async textOf(field: SelectedField): Promise<string> {
    if (field.node.name.value !== '__schema') return this.#described(merged(field))
    const { operation, variables } = this.#compilation
    const members: string[] = []
    for (const member of selectionOf(field.inner, __Schema, operation, variables)) {
      members.push(`${JSON.stringify(member.key)}:${await this.#memberText(member)}`)
    }
    return `{${members.join(',')}}`
  }

  async #memberText(member: SelectedField): Promise<string> {
    if (member.node.name.value === 'types') return `[${(await this.#typeTexts(setOf(selectionsOf(member)))).join(',')}]`
    const text = await this.#described({ ...SCHEMA, selectionSet: setOf([merged(member)]) })
    // Strips the braces and the key of the only member.
    return text.slice(`{${JSON.stringify(member.key)}:`.length, -1)
  }

  async #typeTexts(selectionSet: SelectionSetNode): Promise<string[]> {
    const texts: string[] = []
    for (const name of Object.keys(this.#all.types)) {
      if (!this.#isActive()) return texts
      texts.push(await this.#described({ ...TYPE, arguments: [nameIs(name)], selectionSet }))
      await this.#slice.yieldIfOver()
    }
    return texts
  }

  /** The library's result for one root field. */
  async #described(field: FieldNode): Promise<string> {
    const { operation, variables } = this.#compilation
    const { variableDefinitions = [] } = operation.node
    const node = {
      ...operation.node,
      // Introspection takes no other types, and the variables are coerced again for each type.
      variableDefinitions: variableDefinitions.filter(({ type }) => isSmall(type)),
      selectionSet: setOf([field]),
    }
    const document: DocumentNode = { kind: Kind.DOCUMENT, definitions: [node, ...this.#fragments] }
    const { data } = await execute({ schema: this.#schema, document, variableValues: variables })
    const text = await stringifyInSlices(data?.[field.alias?.value ?? field.name.value] ?? null, this.#slice)
    this.#length += text.length
    if (this.#length > budgets.responseBytes) throw new AppError('response_too_large', 'response too large')
    return text
  }
}

const setOf = (selections: readonly SelectionNode[]): SelectionSetNode => ({ kind: Kind.SELECTION_SET, selections })
const named = (value: string): NameNode => ({ kind: Kind.NAME, value })
const SCHEMA: FieldNode = { kind: Kind.FIELD, name: named('__schema') }
const TYPE: FieldNode = { kind: Kind.FIELD, name: named('__type') }
const nameIs = (value: string): ArgumentNode => ({
  kind: Kind.ARGUMENT,
  name: named('name'),
  value: { kind: Kind.STRING, value },
})

const isSmall = (type: TypeNode): boolean =>
  type.kind === Kind.NON_NULL_TYPE
    ? isSmall(type.type)
    : type.kind === Kind.NAMED_TYPE && (type.name.value === 'Boolean' || type.name.value === 'String')

const selectionsOf = ({ inner }: SelectedField): SelectionNode[] => inner.flatMap(({ selections }) => selections)

/** Several fields of one key as one field. */
const merged = (selected: SelectedField): FieldNode =>
  selected.inner.length > 0 ? { ...selected.node, selectionSet: setOf(selectionsOf(selected)) } : selected.node

/** The parts of a GraphQLSchema, whose constructor would collect all types without yielding. */
type AllTypes = Roots & { readonly types: Readonly<Record<string, GraphQLNamedType>> }

async function makeAllTypes(names: Names, tables: readonly NamedTable[], slice: TimeSlice): Promise<AllTypes> {
  const roots = await new TypeSystem(names, tables).inSlices(slice)
  const types: Record<string, GraphQLNamedType> = { ...BARE.getTypeMap() }
  const left = [roots.query, roots.subscription, ...(roots.mutation ? [roots.mutation] : [])] as GraphQLNamedType[]
  for (let type = left.pop(); type; type = left.pop()) {
    if (types[type.name] === type) continue
    types[type.name] = type
    left.push(...namedIn(type))
    await slice.yieldIfOver()
  }
  return { ...roots, types }
}

/** Has the directives and types of every schema. */
const BARE = new GraphQLSchema({ query: new GraphQLObjectType({ name: 'Query', fields: {} }), assumeValid: true })

/** The types of the fields of a type and of their arguments. */
const namedIn = (type: GraphQLNamedType): GraphQLNamedType[] =>
  isObjectType(type)
    ? Object.values(type.getFields()).flatMap((field) => [field, ...field.args].map((one) => getNamedType(one.type)))
    : isInputObjectType(type)
      ? Object.values(type.getFields()).map((field) => getNamedType(field.type))
      : []

/**
 * A schema whose root fields are promises that resolve one after another, so that the library yields between them.
 */
function schemaInSlices(all: AllTypes, slice: TimeSlice): GraphQLSchema {
  const rootOf = (root: GraphQLObjectType | undefined): GraphQLObjectType | undefined =>
    root ? Object.create(root, { getFields: { value: () => promised(root.getFields(), slice) } }) : undefined
  const [query, mutation, subscription] = [all.query, all.mutation, all.subscription].map(rootOf)
  const types: AllTypes['types'] = {
    ...all.types,
    ...(query && { Query: query }),
    ...(mutation && { Mutation: mutation }),
    ...(subscription && { Subscription: subscription }),
  }
  return Object.create(BARE, {
    getQueryType: { value: () => query },
    getMutationType: { value: () => mutation },
    getSubscriptionType: { value: () => subscription },
    getRootType: { value: (kind: string) => (kind === 'query' ? query : undefined) },
    getTypeMap: { value: () => types },
    getType: { value: (name: string) => (Object.hasOwn(types, name) ? types[name] : undefined) },
  })
}

function promised<T>(things: Readonly<Record<string, T>>, slice: TimeSlice): Record<string, Promise<T>> {
  let last: Promise<unknown> = Promise.resolve()
  const entries = Object.entries(things).map(([name, thing]): [string, Promise<T>] => {
    const next = last.then(() => slice.yieldIfOver()).then(() => thing)
    last = next
    return [name, next]
  })
  return Object.fromEntries(entries)
}
