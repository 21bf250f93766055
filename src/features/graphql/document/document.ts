import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
  type ValueNode,
} from 'graphql'
import { LRUCache } from 'lru-cache'
import { badRequest } from '../../../core/errors.ts'
import { parseWithinLimits, sizeOf } from './size.ts'

/** After fragments are expanded, whatever the configured limits. */
const MAX_FIELDS = 20_000
/** The same for introspection; the usual queries of tools have 240. */
const MAX_SCHEMA_FIELDS = 1_000
const MAX_KEYS = 25_000
/** In variables, counted at each use. Objects cost more than other values. */
const MAX_VALUES = 100_000
const MAX_OBJECTS = 25_000
/** Validation visits all that an operation reaches, for each operation. */
const MAX_NODES_TIMES_OPERATIONS = 500_000

export type Operation = {
  readonly node: OperationDefinitionNode
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>
}

export type ReadDocument = {
  readonly document: DocumentNode
  readonly names: ReadonlySet<string>
  readonly isLarge: boolean
  /** Type systems against which it was found valid. */
  readonly validIn: WeakSet<object>
}

/** Caches parsed documents. The limits are low because a document takes many times its text in memory. */
export class Documents {
  readonly #known = new LRUCache<string, ReadDocument>({
    maxSize: 400_000,
    maxEntrySize: 20_000,
    sizeCalculation: (_, text) => text.length + 200,
  })

  read(text: string): ReadDocument {
    const known = this.#known.get(text)
    if (known) return known
    const document = parseWithinLimits(text)
    const { nodes, names, isLarge } = sizeOf(document, text)
    requireFewOperations(document, nodes)
    const read = { document, names, isLarge, validIn: new WeakSet<object>() }
    this.#known.set(text, read)
    return read
  }
}

function requireFewOperations({ definitions }: DocumentNode, nodes: number): void {
  const operations = definitions.filter(({ kind }) => kind === Kind.OPERATION_DEFINITION).length
  if (operations * nodes > MAX_NODES_TIMES_OPERATIONS) {
    throw badRequest(`document has too many operations for its size: ${operations}`, 'query_too_complex')
  }
}

/** The number of values in each variable, at any depth. */
export type Sizes = ReadonlyMap<string, number>

/**
 * Counts the values, and adds the keys of objects at any depth to the words of the document, because a `where` may be a
 * variable.
 */
export function readVariables(variables: Readonly<Record<string, unknown>>, words: Set<string>): Sizes {
  let [count, objects] = [0, 0]
  const walk = (value: unknown): void => {
    if (++count > MAX_VALUES) throw badRequest(`variables have more than ${MAX_VALUES} values`, 'query_too_complex')
    if (Array.isArray(value)) for (const item of value) walk(item)
    else if (typeof value === 'object' && value !== null) {
      if (++objects > MAX_OBJECTS)
        throw badRequest(`variables have more than ${MAX_OBJECTS} objects`, 'query_too_complex')
      for (const key in value) {
        words.add(key)
        if (words.size > MAX_KEYS)
          throw badRequest(`document and variables have more than ${MAX_KEYS} different names`, 'query_too_complex')
        walk((value as Readonly<Record<string, unknown>>)[key])
      }
    }
  }
  const sizes = new Map<string, number>()
  for (const [name, value] of Object.entries(variables)) {
    const before = count
    walk(value)
    sizes.set(name, count - before)
  }
  return sizes
}

export function chooseOperation(document: DocumentNode, name: string | undefined): Operation {
  const operations: OperationDefinitionNode[] = []
  const fragments = new Map<string, FragmentDefinitionNode>()
  for (const definition of document.definitions) {
    if (definition.kind === Kind.OPERATION_DEFINITION) operations.push(definition)
    if (definition.kind === Kind.FRAGMENT_DEFINITION) fragments.set(definition.name.value, definition)
  }
  const named = name === undefined || name === '' ? operations : operations.filter((node) => node.name?.value === name)
  const [node] = named
  if (!node)
    throw badRequest(name ? `unknown operation named "${name}"` : 'must provide an operation', 'invalid_document')
  if (named.length > 1)
    throw badRequest('must provide operation name if query contains multiple operations', 'invalid_document')
  return { node, fragments }
}

type Measure = {
  readonly depth: number
  readonly fields: number
  /** Fields of introspection, which are not counted in `fields`. */
  readonly schemaFields: number
  /** All nodes, with spreads and literals: the cost of a traversal. */
  readonly steps: number
  /** Values in variables, counted at each use. */
  readonly values: number
}

const NOTHING: Measure = { depth: 0, fields: 0, schemaFields: 0, steps: 0, values: 0 }

/**
 * The depth and size of an operation with its fragments expanded. Each fragment is measured once, and one that contains
 * itself is refused. This must run before anything that expands fragments.
 */
export function measureCost({ node, fragments }: Operation, sizes: Sizes): Measure {
  const known = new Map<string, Measure | undefined>()
  const defaults = defaultSizes(node)
  const ofFragment = (name: string): Measure => {
    const measured = known.get(name)
    if (measured) return measured
    if (known.has(name)) throw badRequest(`Cannot spread fragment "${name}" within itself.`, 'invalid_document')
    known.set(name, undefined)
    const fragment = fragments.get(name)
    const found = fragment ? ofSet(fragment.selectionSet) : NOTHING
    known.set(name, found)
    return found
  }
  const ofSet = ({ selections }: SelectionSetNode): Measure => {
    let [depth, fields, schemaFields, steps, values] = [0, 0, 0, selections.length, 0]
    for (const selection of selections) {
      const inner =
        selection.kind === Kind.FIELD
          ? ofField(selection)
          : selection.kind === Kind.FRAGMENT_SPREAD
            ? ofFragment(selection.name.value)
            : ofSet(selection.selectionSet)
      depth = Math.max(depth, inner.depth)
      fields += inner.fields
      schemaFields += inner.schemaFields
      steps += inner.steps
      values += inner.values
    }
    return { depth, fields, schemaFields, steps, values }
  }
  const ofField = (field: FieldNode): Measure => {
    const inner = field.selectionSet ? ofSet(field.selectionSet) : NOTHING
    if (isIntrospection(field)) return { ...inner, depth: 0, fields: 0, schemaFields: inner.steps + 1 }
    let { steps, values } = inner
    for (const { value } of field.arguments ?? []) {
      eachLiteral(value, (literal) => {
        steps++
        if (literal.kind === Kind.VARIABLE)
          values += sizes.get(literal.name.value) ?? defaults.get(literal.name.value) ?? 0
      })
    }
    return { ...inner, depth: inner.depth + 1, fields: inner.fields + 1, steps, values }
  }
  return ofSet(node.selectionSet)
}

/** Visits a literal and everything inside of it. */
function eachLiteral(value: ValueNode, visit: (literal: ValueNode) => void): void {
  visit(value)
  if (value.kind === Kind.LIST) for (const inside of value.values) eachLiteral(inside, visit)
  if (value.kind === Kind.OBJECT) for (const { value: inside } of value.fields) eachLiteral(inside, visit)
}

function defaultSizes({ variableDefinitions = [] }: OperationDefinitionNode): Sizes {
  const sizes = new Map<string, number>()
  for (const { variable, defaultValue } of variableDefinitions) {
    let count = 0
    if (defaultValue) eachLiteral(defaultValue, () => count++)
    sizes.set(variable.name.value, count)
  }
  return sizes
}

export const isIntrospection = ({ name }: FieldNode): boolean => name.value === '__schema' || name.value === '__type'

export type Limits = { max_depth: number; max_complexity: number }

/** A configured limit of zero means none. */
export function requireWithinLimits({ depth, fields, schemaFields, steps, values }: Measure, limits: Limits): void {
  if (limits.max_depth > 0 && depth > limits.max_depth) {
    throw badRequest(`query depth ${depth} exceeds limit ${limits.max_depth}`, 'query_too_complex')
  }
  const most = limits.max_complexity > 0 ? Math.min(limits.max_complexity, MAX_FIELDS) : MAX_FIELDS
  if (fields > most) throw badRequest(`query complexity ${fields} exceeds limit ${most}`, 'query_too_complex')
  if (schemaFields > MAX_SCHEMA_FIELDS) {
    throw badRequest(`introspection of ${schemaFields} fields exceeds limit ${MAX_SCHEMA_FIELDS}`, 'query_too_complex')
  }
  // Fragments may contain only fragments and so have no fields.
  if (steps > 2 * MAX_FIELDS)
    throw badRequest(`query complexity ${steps} exceeds limit ${2 * MAX_FIELDS}`, 'query_too_complex')
  if (values > MAX_VALUES)
    throw badRequest(`query uses ${values} values of variables, more than ${MAX_VALUES}`, 'query_too_complex')
}
