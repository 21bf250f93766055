import {
  type ASTNode,
  type ASTVisitor,
  type ASTVisitorKeyMap,
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

/** selectionOf() checks whether fields can be merged; the rule would compare every field with every other. */
const RULES = specifiedRules.filter((rule) => rule !== OverlappingFieldsCanBeMergedRule)

/** The keys that lead to nodes with rules. Names have none, and visiting them would take most of the time. */
const VISITED_KEYS: ASTVisitorKeyMap = {
  Document: ['definitions'],
  OperationDefinition: ['variableDefinitions', 'directives', 'selectionSet'],
  FragmentDefinition: ['typeCondition', 'directives', 'selectionSet'],
  VariableDefinition: ['variable', 'type', 'defaultValue', 'directives'],
  SelectionSet: ['selections'],
  Field: ['arguments', 'directives', 'selectionSet'],
  InlineFragment: ['typeCondition', 'directives', 'selectionSet'],
  FragmentSpread: ['directives'],
  Directive: ['arguments'],
  Argument: ['value'],
  ListValue: ['values'],
  ObjectValue: ['fields'],
  ObjectField: ['value'],
  ListType: ['type'],
  NonNullType: ['type'],
}

/**
 * Runs the library's rules. The library calls every rule for every node, which takes most of the time of a large document;
 * here a node goes only to the rules for its kind.
 */
export function validationErrors(
  schema: GraphQLSchema,
  document: DocumentNode,
  { maxErrors, hideSuggestions }: ValidationOptions,
): readonly GraphQLError[] {
  const errors: GraphQLError[] = []
  const types = new TypeInfo(schema)
  const onError = (error: GraphQLError): void => {
    errors.push(error)
    if (errors.length >= maxErrors) throw new EnoughErrors()
  }
  const context = new Context(schema, document, types, onError, hideSuggestions)
  try {
    visit(document, visitWithTypeInfo(types, parallelVisitor(RULES.map((rule) => rule(context)))), VISITED_KEYS)
  } catch (error) {
    if (!(error instanceof EnoughErrors)) throw error
  }
  return errors
}

class EnoughErrors extends Error {}

type VariableUsage = ReturnType<ValidationContext['getVariableUsages']>[number]

/** Finds variables without visiting names, which the library does too. */
class Context extends ValidationContext {
  readonly #usages = new Map<ASTNode, readonly VariableUsage[]>()

  override getVariableUsages(node: Parameters<ValidationContext['getVariableUsages']>[0]): readonly VariableUsage[] {
    const known = this.#usages.get(node)
    if (known) return known
    const usages: VariableUsage[] = []
    const types = new TypeInfo(this.getSchema())
    const visitor: ASTVisitor = {
      VariableDefinition: () => false,
      Variable: (variable) => {
        const [type, defaultValue] = [types.getInputType(), types.getDefaultValue()]
        usages.push({ node: variable, type, defaultValue, parentType: types.getParentInputType() })
      },
    }
    visit(node, visitWithTypeInfo(types, visitor), VISITED_KEYS)
    this.#usages.set(node, usages)
    return usages
  }
}

type Handler = { readonly rule: number; readonly call: (...args: unknown[]) => unknown }
type Handlers = { readonly enter: readonly Handler[]; readonly leave: readonly Handler[] }

/** Runs rules in parallel. A rule that returns `false` skips the inside of that node. */
function parallelVisitor(rules: readonly ASTVisitor[]): ASTVisitor {
  const byKind = new Map<Kind, Handlers>()
  const isSkipping = rules.map(() => false)
  /** The rules that skip the inside of a node. */
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
