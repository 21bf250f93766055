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

/** Merging fields is checked where they are merged: the rule compares every field with every other. */
const RULES = specifiedRules.filter((rule) => rule !== OverlappingFieldsCanBeMergedRule)

/** Where the nodes that rules look at are: not in names, which most nodes have and all of the time would be spent on. */
const WHERE_TO_LOOK: ASTVisitorKeyMap = {
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
  const context = new Context(schema, document, types, found, hideSuggestions)
  try {
    visit(document, visitWithTypeInfo(types, together(RULES.map((rule) => rule(context)))), WHERE_TO_LOOK)
  } catch (error) {
    if (!(error instanceof EnoughErrors)) throw error
  }
  return errors
}

class EnoughErrors extends Error {}

type VariableUsage = ReturnType<ValidationContext['getVariableUsages']>[number]

/** As the library's, which looks for variables in names too. */
class Context extends ValidationContext {
  readonly #usages = new Map<ASTNode, readonly VariableUsage[]>()

  override getVariableUsages(node: Parameters<ValidationContext['getVariableUsages']>[0]): readonly VariableUsage[] {
    const known = this.#usages.get(node)
    if (known) return known
    const usages: VariableUsage[] = []
    const types = new TypeInfo(this.getSchema())
    const look: ASTVisitor = {
      VariableDefinition: () => false,
      Variable: (variable) => {
        const [type, defaultValue] = [types.getInputType(), types.getDefaultValue()]
        usages.push({ node: variable, type, defaultValue, parentType: types.getParentInputType() })
      },
    }
    visit(node, visitWithTypeInfo(types, look), WHERE_TO_LOOK)
    this.#usages.set(node, usages)
    return usages
  }
}

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
