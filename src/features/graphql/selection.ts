import {
  type FieldNode,
  GraphQLError,
  type GraphQLField,
  GraphQLIncludeDirective,
  type GraphQLObjectType,
  GraphQLSkipDirective,
  getDirectiveValues,
  Kind,
  print,
  type SelectionNode,
  type SelectionSetNode,
} from 'graphql'
import { badRequest } from '../../core/errors.ts'
import type { Operation } from './document/document.ts'
import type { Variables } from './document/variables.ts'
import type { FieldMeaning } from './type-system.ts'

/** One key of the response: its field, and the selections inside of it. */
export type SelectedField = {
  readonly key: string
  readonly node: FieldNode
  /** Undefined for `__typename`. */
  readonly field: GraphQLField<unknown, unknown> | undefined
  readonly inner: readonly SelectionSetNode[]
}

/** PostgreSQL truncates longer names. */
const MAX_KEY_BYTES = 63

/**
 * The merged fields of several selection sets, with fragments expanded. Fields of one key must be the same field with the
 * same arguments (GraphQL specification, section 5.3.2).
 */
export function selectionOf(
  sets: readonly SelectionSetNode[],
  type: GraphQLObjectType,
  operation: Operation,
  variables: Variables,
): SelectedField[] {
  return [...mergedFields(sets, operation, variables)].map(([key, { node, inner }]) => {
    if (key.length > MAX_KEY_BYTES)
      throw badRequest(`alias "${key.slice(0, 20)}…" is longer than ${MAX_KEY_BYTES} characters`, 'query_too_complex')
    return { key, node, field: type.getFields()[node.name.value], inner }
  })
}

/** By their keys in the response. */
export function mergedFields(
  sets: readonly SelectionSetNode[],
  { fragments }: Operation,
  variables: Variables,
): ReadonlyMap<string, { readonly node: FieldNode; readonly inner: readonly SelectionSetNode[] }> {
  const found = new Map<string, { node: FieldNode; inner: SelectionSetNode[] }>()
  const add = (node: FieldNode): void => {
    const key = node.alias?.value ?? node.name.value
    const known = found.get(key)
    if (known && !isSame(known.node, node)) {
      throw new GraphQLError(`fields "${key}" conflict: use different aliases to fetch both`)
    }
    const entry = known ?? { node, inner: [] }
    if (node.selectionSet) entry.inner.push(node.selectionSet)
    found.set(key, entry)
  }
  const walk = (set: SelectionSetNode): void => {
    for (const selection of set.selections) {
      if (!isIncluded(selection, variables)) continue
      if (selection.kind === Kind.FIELD) add(selection)
      else if (selection.kind === Kind.INLINE_FRAGMENT) walk(selection.selectionSet)
      else {
        const fragment = fragments.get(selection.name.value)
        if (fragment) walk(fragment.selectionSet)
      }
    }
  }
  for (const set of sets) walk(set)
  return found
}

function isSame(one: FieldNode, other: FieldNode): boolean {
  if (one === other) return true
  const [some, more] = [one.arguments ?? [], other.arguments ?? []]
  if (one.name.value !== other.name.value || some.length !== more.length) return false
  return some.length === 0 || signatureOf(one) === signatureOf(other)
}

function signatureOf(node: FieldNode): string {
  const known = signatures.get(node)
  if (known !== undefined) return known
  const signature = (node.arguments ?? []).map(print).sort().join(',')
  signatures.set(node, signature)
  return signature
}

const signatures = new WeakMap<FieldNode, string>()

function isIncluded(node: SelectionNode, variables: Variables): boolean {
  if (getDirectiveValues(GraphQLSkipDirective, node, variables)?.['if'] === true) return false
  return getDirectiveValues(GraphQLIncludeDirective, node, variables)?.['if'] !== false
}

export const meaningOf = (field: GraphQLField<unknown, unknown>): FieldMeaning =>
  field.extensions as unknown as FieldMeaning
