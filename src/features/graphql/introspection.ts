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
import type { Names } from './names.ts'
import type { Compilation } from './query.ts'
import { type SelectedField, selectionOf } from './selection.ts'
import { TimeSlice, stringifyInSlices } from './time-slice.ts'
import { type Roots, TypeSystem } from './type-system.ts'

/**
 * What a document asks about the schema. With a thousand tables the types take seconds to make and to describe, so both
 * happen in slices between which others are served, for one document at a time. Each type is written down before the next
 * is described: all of them together are hundreds of megabytes.
 */
export class Introspection {
  readonly #whole = new WeakMap<Names, Promise<Whole>>()
  readonly #sliceMs: number | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(sliceMs?: number) {
    this.#sliceMs = sliceMs
  }

  /** The JSON text of each key. */
  answer(
    compilation: Asked,
    document: DocumentNode,
    asked: readonly SelectedField[],
    isWanted: () => boolean,
  ): Promise<Map<string, string>> {
    const work = async (): Promise<Map<string, string>> => {
      const texts = new Map<string, string>()
      if (!isWanted()) return texts
      const breaks = new TimeSlice(this.#sliceMs)
      const whole = await this.#wholeOf(compilation.names, breaks)
      const description = new Description(whole, compilation, document, isWanted, breaks)
      for (const one of asked) texts.set(one.key, await description.textOf(one))
      return texts
    }
    const answered = this.#last.then(work, work)
    this.#last = answered
    return answered
  }

  #wholeOf(names: Names, breaks: TimeSlice): Promise<Whole> {
    const known = this.#whole.get(names) ?? wholeOf(names, breaks)
    this.#whole.set(names, known)
    return known
  }
}

type Asked = Pick<Compilation, 'names' | 'operation' | 'variables'>

/** The answer to one document. */
class Description {
  readonly #whole: Whole
  readonly #compilation: Asked
  readonly #fragments: readonly DefinitionNode[]
  readonly #isWanted: () => boolean
  readonly #breaks: TimeSlice
  readonly #schema: GraphQLSchema
  #length = 0

  constructor(whole: Whole, compilation: Asked, document: DocumentNode, isWanted: () => boolean, breaks: TimeSlice) {
    this.#whole = whole
    this.#compilation = compilation
    this.#fragments = document.definitions.filter(({ kind }) => kind === Kind.FRAGMENT_DEFINITION)
    this.#isWanted = isWanted
    this.#breaks = breaks
    this.#schema = inTurns(whole, breaks)
  }

  /** Of `__schema` or `__type`. */
  async textOf(asked: SelectedField): Promise<string> {
    if (asked.node.name.value !== '__schema') return this.#described(merged(asked))
    const { operation, variables } = this.#compilation
    const members: string[] = []
    for (const member of selectionOf(asked.inner, __Schema, operation, variables)) {
      members.push(`${JSON.stringify(member.key)}:${await this.#memberText(member)}`)
    }
    return `{${members.join(',')}}`
  }

  async #memberText(member: SelectedField): Promise<string> {
    if (member.node.name.value === 'types') return `[${(await this.#typeTexts(setOf(selectionsOf(member)))).join(',')}]`
    const text = await this.#described({ ...SCHEMA, selectionSet: setOf([merged(member)]) })
    // The one member of an object is between its braces, behind its key.
    return text.slice(`{${JSON.stringify(member.key)}:`.length, -1)
  }

  async #typeTexts(selectionSet: SelectionSetNode): Promise<string[]> {
    const texts: string[] = []
    for (const name of Object.keys(this.#whole.types)) {
      if (!this.#isWanted()) return texts
      texts.push(await this.#described({ ...TYPE, arguments: [nameIs(name)], selectionSet }))
      await this.#breaks.yieldIfOver()
    }
    return texts
  }

  /** What the library says about one field of the root. */
  async #described(field: FieldNode): Promise<string> {
    const { operation, variables } = this.#compilation
    const { variableDefinitions = [] } = operation.node
    const node = {
      ...operation.node,
      // Nothing else can stand in what is asked about the schema, and these are read again for each type.
      variableDefinitions: variableDefinitions.filter(({ type }) => isSmall(type)),
      selectionSet: setOf([field]),
    }
    const document: DocumentNode = { kind: Kind.DOCUMENT, definitions: [node, ...this.#fragments] }
    const { data } = await execute({ schema: this.#schema, document, variableValues: variables })
    const text = await stringifyInSlices(data?.[field.alias?.value ?? field.name.value] ?? null, this.#breaks)
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

/** What several fields of one key ask for together. */
const merged = (selected: SelectedField): FieldNode =>
  selected.inner.length > 0 ? { ...selected.node, selectionSet: setOf(selectionsOf(selected)) } : selected.node

/** What a GraphQLSchema holds; made by itself, it would go through all types at once. */
type Whole = Roots & { readonly types: Readonly<Record<string, GraphQLNamedType>> }

async function wholeOf(names: Names, breaks: TimeSlice): Promise<Whole> {
  const roots = await new TypeSystem(names, names.all()).inSlices(breaks)
  const types: Record<string, GraphQLNamedType> = { ...BARE.getTypeMap() }
  const left = [roots.query, ...(roots.mutation ? [roots.mutation] : [])] as GraphQLNamedType[]
  for (let type = left.pop(); type; type = left.pop()) {
    if (types[type.name] === type) continue
    types[type.name] = type
    left.push(...namedIn(type))
    await breaks.yieldIfOver()
  }
  return { ...roots, types }
}

/** Directives, and the types that every schema has. */
const BARE = new GraphQLSchema({ query: new GraphQLObjectType({ name: 'Query', fields: {} }), assumeValid: true })

/** The types that fields of a type, and their arguments, are of. */
const namedIn = (type: GraphQLNamedType): GraphQLNamedType[] =>
  isObjectType(type)
    ? Object.values(type.getFields()).flatMap((field) => [field, ...field.args].map((one) => getNamedType(one.type)))
    : isInputObjectType(type)
      ? Object.values(type.getFields()).map((field) => getNamedType(field.type))
      : []

/**
 * A schema whose fields at its roots come as promises, each kept after its turn: the library then describes one at a
 * time.
 */
function inTurns(whole: Whole, breaks: TimeSlice): GraphQLSchema {
  const rootOf = (root: GraphQLObjectType | undefined): GraphQLObjectType | undefined =>
    root ? Object.create(root, { getFields: { value: () => promised(root.getFields(), breaks) } }) : undefined
  const [query, mutation] = [rootOf(whole.query), rootOf(whole.mutation)]
  const types: Whole['types'] = {
    ...whole.types,
    ...(query && { Query: query }),
    ...(mutation && { Mutation: mutation }),
  }
  return Object.create(BARE, {
    getQueryType: { value: () => query },
    getMutationType: { value: () => mutation },
    getRootType: { value: (kind: string) => (kind === 'query' ? query : undefined) },
    getTypeMap: { value: () => types },
    getType: { value: (name: string) => (Object.hasOwn(types, name) ? types[name] : undefined) },
  })
}

function promised<T>(things: Readonly<Record<string, T>>, breaks: TimeSlice): Record<string, Promise<T>> {
  let last: Promise<unknown> = Promise.resolve()
  const entries = Object.entries(things).map(([name, thing]): [string, Promise<T>] => {
    const turn = last.then(() => breaks.yieldIfOver()).then(() => thing)
    last = turn
    return [name, turn]
  })
  return Object.fromEntries(entries)
}
