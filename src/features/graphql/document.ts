import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  Kind,
  Lexer,
  type OperationDefinitionNode,
  parse,
  type SelectionSetNode,
  Source,
  TokenKind,
} from 'graphql'
import { badRequest } from '../../core/errors.ts'

const MAX_TOKENS = 20_000
const MAX_LEVELS = 200
/** After all fragments are put in their places, whatever the configured limits. */
const MAX_FIELDS = 20_000

const OPENING: ReadonlySet<TokenKind> = new Set([TokenKind.BRACE_L, TokenKind.BRACKET_L, TokenKind.PAREN_L])
const CLOSING: ReadonlySet<TokenKind> = new Set([TokenKind.BRACE_R, TokenKind.BRACKET_R, TokenKind.PAREN_R])

export type Operation = {
  readonly node: OperationDefinitionNode
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>
}

export type ParsedDocument = {
  readonly document: DocumentNode
  /** Every name in it: what is not among them the document cannot be about. */
  readonly names: ReadonlySet<string>
}

/** One pass over the tokens first: the parser calls itself, and a document must not decide how deep. */
export function parseDocument(text: string): ParsedDocument {
  const lexer = new Lexer(new Source(text))
  const names = new Set<string>()
  let [count, level] = [0, 0]
  for (let token = lexer.advance(); token.kind !== TokenKind.EOF; token = lexer.advance()) {
    if (++count > MAX_TOKENS) throw badRequest(`document has more than ${MAX_TOKENS} tokens`)
    if (OPENING.has(token.kind) && ++level > MAX_LEVELS) throw badRequest(`document has more than ${MAX_LEVELS} levels`)
    if (CLOSING.has(token.kind)) level--
    if (token.kind === TokenKind.NAME) names.add(token.value)
  }
  return { document: parse(text, { noLocation: true }), names }
}

/** Keys of objects at any depth: a `where` may come as a variable. */
export function keysIn(value: unknown, into: Set<string>): Set<string> {
  if (Array.isArray(value)) for (const item of value) keysIn(item, into)
  else if (typeof value === 'object' && value !== null) {
    for (const [key, inner] of Object.entries(value)) keysIn(inner, into.add(key))
  }
  return into
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
  if (!node) throw badRequest(name ? `unknown operation named "${name}"` : 'must provide an operation')
  if (named.length > 1) throw badRequest('must provide operation name if query contains multiple operations')
  return { node, fragments }
}

type Measure = { depth: number; fields: number }

/**
 * How deep and how large an operation is once its fragments are in their places; each fragment is measured once. Runs
 * after validation, which refused cycles. Introspection does not count.
 */
export function measure({ node, fragments }: Operation): Measure {
  const known = new Map<string, Measure>()
  const ofFragment = (name: string): Measure => {
    const fragment = fragments.get(name)
    const measured = known.get(name) ?? (fragment ? ofSet(fragment.selectionSet) : { depth: 0, fields: 0 })
    known.set(name, measured)
    return measured
  }
  const ofSet = (set: SelectionSetNode): Measure => {
    let [depth, fields] = [0, 0]
    for (const selection of set.selections) {
      const inner =
        selection.kind === Kind.FIELD
          ? ofField(selection)
          : selection.kind === Kind.FRAGMENT_SPREAD
            ? ofFragment(selection.name.value)
            : ofSet(selection.selectionSet)
      depth = Math.max(depth, inner.depth)
      fields += inner.fields
    }
    return { depth, fields }
  }
  const ofField = (field: FieldNode): Measure => {
    if (isIntrospection(field)) return { depth: 0, fields: 0 }
    const inner = field.selectionSet ? ofSet(field.selectionSet) : { depth: 0, fields: 0 }
    return { depth: inner.depth + 1, fields: inner.fields + 1 }
  }
  return ofSet(node.selectionSet)
}

export const isIntrospection = ({ name }: FieldNode): boolean => name.value === '__schema' || name.value === '__type'

export type Limits = { max_depth: number; max_complexity: number }

/** Zero is no limit of the operator's. */
export function requireWithin({ depth, fields }: Measure, limits: Limits): void {
  if (limits.max_depth > 0 && depth > limits.max_depth) {
    throw badRequest(`query depth ${depth} exceeds limit ${limits.max_depth}`)
  }
  const most = limits.max_complexity > 0 ? Math.min(limits.max_complexity, MAX_FIELDS) : MAX_FIELDS
  if (fields > most) throw badRequest(`query complexity ${fields} exceeds limit ${most}`)
}

/** The tables' names are nobody's business where introspection is refused. */
export const withoutHints = (message: string): string => message.replace(/ Did you mean .*\?$/s, '')
