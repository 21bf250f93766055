import { type ASTNode, type DocumentNode, Kind, parse } from 'graphql'
import { badRequest } from '../../../core/errors.ts'

const MAX_TOKENS = 20_000
/** The parser does not count comments as tokens. */
const MAX_COMMENT_SIGNS = 20_000
const MAX_LEVELS = 200
/** PostgreSQL returns at most 1,664 columns, and each key of an object is one. */
const MAX_ALIASES = 2_000
const MAX_FRAGMENTS = 500
/** Different names: validation is slowest for unknown ones. */
const MAX_NAMES = 5_000
/** PostgreSQL's names have at most 63 bytes; those of types and variables may be longer. */
const MAX_NAME = 1_000
/** Documents written by people are smaller. */
const LARGE = { nodes: 1_500, levels: 50, characters: 20_000 }

const tooMany = (max: number, what: string) => badRequest(`document has more than ${max} ${what}`, 'query_too_complex')

/** Parses a document and stops at the first token over the limit. */
export function parseWithinLimits(text: string): DocumentNode {
  if (hasMore(text, '#', MAX_COMMENT_SIGNS)) throw tooMany(MAX_COMMENT_SIGNS, 'comments')
  try {
    return parse(text, { noLocation: true, maxTokens: MAX_TOKENS })
  } catch (error) {
    // The parser is recursive, and MAX_TOKENS allows more levels than the stack.
    throw error instanceof RangeError ? tooMany(MAX_LEVELS, 'levels') : error
  }
}

function hasMore(text: string, sign: string, max: number): boolean {
  let at = -1
  for (let count = 0; count <= max; count++) {
    at = text.indexOf(sign, at + 1)
    if (at === -1) return false
  }
  return true
}

export type Size = {
  /** Without name nodes. */
  readonly nodes: number
  /** All names; the document can only use tables among them. */
  readonly names: ReadonlySet<string>
  readonly isLarge: boolean
}

/** Counts the parts of a document and refuses it at the first limit exceeded. */
export function sizeOf(document: DocumentNode, text: string): Size {
  const names = new Set<string>()
  let [nodes, deepest, aliases, fragments] = [0, 0, 0, 0]
  const addName = (name: string): void => {
    if (name.length > MAX_NAME)
      throw badRequest(`document has a name of more than ${MAX_NAME} characters`, 'query_too_complex')
    names.add(name)
    if (names.size > MAX_NAMES) throw tooMany(MAX_NAMES, 'different names')
  }
  const walk = (node: ASTNode, outer: number): void => {
    if (node.kind === Kind.NAME) {
      addName(node.value)
      return
    }
    const level = NESTING.has(node.kind) ? outer + 1 : outer
    nodes++
    deepest = Math.max(deepest, level)
    if (level > MAX_LEVELS) throw tooMany(MAX_LEVELS, 'levels')
    if (node.kind === Kind.ENUM) addName(node.value)
    if (node.kind === Kind.FIELD && node.alias && ++aliases > MAX_ALIASES) throw tooMany(MAX_ALIASES, 'aliases')
    if (node.kind === Kind.FRAGMENT_DEFINITION && ++fragments > MAX_FRAGMENTS) throw tooMany(MAX_FRAGMENTS, 'fragments')
    for (const inside of Object.values(node) as unknown[]) {
      if (Array.isArray(inside)) for (const item of inside) walk(item, level)
      else if (isNode(inside)) walk(inside, level)
    }
  }
  walk(document, 0)
  const isLarge = nodes > LARGE.nodes || deepest > LARGE.levels || text.length > LARGE.characters
  return { nodes, names, isLarge }
}

const NESTING: ReadonlySet<string> = new Set([Kind.SELECTION_SET, Kind.LIST, Kind.OBJECT, Kind.LIST_TYPE])

const isNode = (value: unknown): value is ASTNode => typeof value === 'object' && value !== null && 'kind' in value
