import {
  type DocumentNode,
  execute,
  type FieldNode,
  type GraphQLObjectType,
  type GraphQLSchema,
  Kind,
  type SelectionNode,
  type SelectionSetNode,
} from 'graphql'
import type { Names } from './names.ts'
import type { Compilation } from './query.ts'
import type { Selected } from './selection.ts'
import { Breaks, stringifyInSlices } from './slices.ts'
import { TypeSystem } from './type-system.ts'

/**
 * What a document asks about the schema. With a thousand tables the types take seconds to make and to describe, so both
 * happen in slices between which others are served, for one document at a time.
 */
export class Introspection {
  readonly #whole = new WeakMap<Names, Promise<TypeSystem>>()
  #last: Promise<unknown> = Promise.resolve()

  /** The JSON text of each key. */
  answer(
    compilation: Compilation,
    document: DocumentNode,
    asked: readonly Selected[],
    isWanted: () => boolean,
  ): Promise<Map<string, string>> {
    const work = () => this.#answer(compilation, document, asked, isWanted)
    const answered = this.#last.then(work, work)
    this.#last = answered
    return answered
  }

  async #answer(
    { names, operation, variables }: Compilation,
    document: DocumentNode,
    asked: readonly Selected[],
    isWanted: () => boolean,
  ): Promise<Map<string, string>> {
    const texts = new Map<string, string>()
    if (!isWanted()) return texts
    const { schema } = await this.#wholeOf(names)
    const breaks = new Breaks()
    const node = { ...operation.node, selectionSet: setOf(asked.map(merged)) }
    const definitions = [node, ...document.definitions.filter(({ kind }) => kind === Kind.FRAGMENT_DEFINITION)]
    const result = await execute({
      schema: inTurns(schema, breaks),
      document: { ...document, definitions },
      variableValues: variables,
    })
    for (const { key } of asked) texts.set(key, await stringifyInSlices(result.data?.[key] ?? null, breaks))
    return texts
  }

  #wholeOf(names: Names): Promise<TypeSystem> {
    const known = this.#whole.get(names) ?? wholeSystem(names)
    this.#whole.set(names, known)
    return known
  }
}

const setOf = (selections: readonly SelectionNode[]): SelectionSetNode => ({ kind: Kind.SELECTION_SET, selections })

/** What several fields of one key ask for together. */
const merged = ({ node, inner }: Selected): FieldNode =>
  inner.length > 0 ? { ...node, selectionSet: setOf(inner.flatMap(({ selections }) => selections)) } : node

async function wholeSystem(names: Names): Promise<TypeSystem> {
  const system = new TypeSystem(names, names.all())
  await system.prepare(new Breaks())
  return system
}

/**
 * The same schema, whose types, and the fields at its roots, come as promises, each kept after its turn: the library then
 * describes one at a time.
 */
function inTurns(schema: GraphQLSchema, breaks: Breaks): GraphQLSchema {
  const rootOf = (root: GraphQLObjectType | null | undefined): GraphQLObjectType | undefined =>
    root ? Object.create(root, { getFields: { value: () => promised(root.getFields(), breaks) } }) : undefined
  const [query, mutation] = [rootOf(schema.getQueryType()), rootOf(schema.getMutationType())]
  const types = { ...schema.getTypeMap(), ...(query && { Query: query }), ...(mutation && { Mutation: mutation }) }
  return Object.create(schema, {
    getQueryType: { value: () => query },
    getMutationType: { value: () => mutation },
    getRootType: { value: (kind: string) => (kind === 'query' ? query : undefined) },
    getTypeMap: { value: () => promised(types, breaks) },
    // The library looks a type up in the map.
    getType: { value: (name: string) => schema.getType(name) },
  })
}

function promised<T>(things: Readonly<Record<string, T>>, breaks: Breaks): Record<string, Promise<T>> {
  let last: Promise<unknown> = Promise.resolve()
  const entries = Object.entries(things).map(([name, thing]): [string, Promise<T>] => {
    const turn = last.then(() => breaks.taken()).then(() => thing)
    last = turn
    return [name, turn]
  })
  return Object.fromEntries(entries)
}
