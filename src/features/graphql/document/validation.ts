import {
  type ASTNode,
  type ASTVisitor,
  BREAK,
  type DocumentNode,
  type GraphQLError,
  type GraphQLSchema,
  getEnterLeaveForKind,
  type Kind,
  OverlappingFieldsCanBeMergedRule,
  specifiedRules,
  TypeInfo,
  ValidationContext,
  visit,
  visitWithTypeInfo,
} from 'graphql'

export type ValidationOptions = { readonly maxErrors: number; readonly hideSuggestions: boolean }

/** Merging fields is checked where they are merged: the rule compares every field with every other. */
const RULES = specifiedRules.filter((rule) => rule !== OverlappingFieldsCanBeMergedRule)

/**
 * The library's rules. Its own way of running them asks every rule about every node, which is most of the time that a large
 * document takes; here a node goes to the rules that look at its kind.
 */
export function validationErrors(
  schema: GraphQLSchema,
  document: DocumentNode,
  { maxErrors, hideSuggestions }: ValidationOptions,
): readonly GraphQLError[] {
  const errors: GraphQLError[] = []
  const types = new TypeInfo(schema)
  const found = (error: GraphQLError): void => {
    errors.push(error)
    if (errors.length >= maxErrors) throw new EnoughErrors()
  }
  const context = new ValidationContext(schema, document, types, found, hideSuggestions)
  try {
    visit(document, visitWithTypeInfo(types, together(RULES.map((rule) => rule(context)))))
  } catch (error) {
    if (!(error instanceof EnoughErrors)) throw error
  }
  return errors
}

class EnoughErrors extends Error {}

type Handler = { readonly rule: number; readonly call: (...args: unknown[]) => unknown }
type Handlers = { readonly enter: readonly Handler[]; readonly leave: readonly Handler[] }

/** Rules side by side; one that answers `false` does not see what is inside that node. */
function together(rules: readonly ASTVisitor[]): ASTVisitor {
  const byKind = new Map<Kind, Handlers>()
  const isSkipping = rules.map(() => false)
  /** Whose inside which rules do not see. */
  const skipped = new Map<ASTNode, number[]>()
  const handlersOf = (kind: Kind): Handlers => {
    const known = byKind.get(kind) ?? handlersFor(rules, kind)
    byKind.set(kind, known)
    return known
  }
  return {
    enter(node: ASTNode, ...rest: unknown[]): undefined {
      for (const { rule, call } of handlersOf(node.kind).enter) {
        if (isSkipping[rule]) continue
        const answer = call(node, ...rest)
        if (answer !== false && answer !== BREAK) continue
        isSkipping[rule] = true
        if (answer === false) skipped.set(node, [...(skipped.get(node) ?? []), rule])
      }
    },
    leave(node: ASTNode, ...rest: unknown[]): undefined {
      for (const { rule, call } of handlersOf(node.kind).leave) if (!isSkipping[rule]) call(node, ...rest)
      for (const rule of skipped.get(node) ?? []) isSkipping[rule] = false
      skipped.delete(node)
    },
  }
}

function handlersFor(rules: readonly ASTVisitor[], kind: Kind): Handlers {
  const of = (side: 'enter' | 'leave'): Handler[] =>
    rules.flatMap((visitor, rule) => {
      const call = getEnterLeaveForKind(visitor, kind)[side]
      return call ? [{ rule, call: call.bind(visitor) as Handler['call'] }] : []
    })
  return { enter: of('enter'), leave: of('leave') }
}
