import {
  coerceInputValue,
  GraphQLError,
  type GraphQLInputObjectType,
  type GraphQLInputType,
  type GraphQLSchema,
  getVariableValues,
  isInputObjectType,
  isListType,
  isNonNullType,
  isRequiredInputField,
  type OperationDefinitionNode,
  typeFromAST,
  type VariableDefinitionNode,
} from 'graphql'
import { exactText, isMarked, TAKES_EXACT_NUMBERS, unmarked } from './exact-numbers.ts'

export type Variables = Readonly<Record<string, unknown>>

/**
 * Coerces variables (GraphQL specification, section 6.1.2). The library iterates over all possible fields of an input
 * object, which takes a second for a megabyte of small objects. This iterates over the given fields, and calls the library
 * only for the message of an error.
 */
export function coerceVariables(
  { schema }: { schema: GraphQLSchema },
  { variableDefinitions = [] }: OperationDefinitionNode,
  given: Variables,
  hideSuggestions: boolean,
): Variables {
  const coerced: Record<string, unknown> = Object.create(null)
  const byLibrary: VariableDefinitionNode[] = []
  for (const definition of variableDefinitions) {
    const name = definition.variable.name.value
    const value = Object.hasOwn(given, name) ? given[name] : undefined
    const type = typeFromAST(schema, definition.type as Parameters<typeof typeFromAST>[1]) as GraphQLInputType
    if (!isMarked(value) && (typeof value !== 'object' || value === null)) byLibrary.push(definition)
    else coerced[name] = new Reader(name, hideSuggestions).read(value, type)
  }
  const rest = getVariableValues(schema, byLibrary, given, { hideSuggestions, maxErrors: 1 })
  if (rest.errors) throw new GraphQLError(rest.errors[0]?.message ?? 'invalid variables')
  return Object.assign(coerced, rest.coerced)
}

/** The library copies the extensions of a type. */
const isExact = ({ extensions }: { extensions: Readonly<Record<string, unknown>> }): boolean =>
  Object.keys(TAKES_EXACT_NUMBERS).every((key) => extensions[key] === true)

class Reader {
  readonly #variable: string
  readonly #hideSuggestions: boolean
  readonly #path: (string | number)[] = []

  constructor(variable: string, hideSuggestions: boolean) {
    this.#variable = variable
    this.#hideSuggestions = hideSuggestions
  }

  read(given: unknown, type: GraphQLInputType): unknown {
    if (isNonNullType(type)) return given === null ? this.#refuse(given, type) : this.read(given, type.ofType)
    if (given === null) return null
    if (isListType(type)) {
      if (!Array.isArray(given)) return [this.read(given, type.ofType)]
      return given.map((item, i) => this.#inside(i, item, type.ofType))
    }
    if (isInputObjectType(type)) return this.#object(given, type)
    try {
      const value: unknown = type.parseValue(isExact(type) ? given : unmarked(given))
      if (value !== undefined) return value
    } catch {
      // #refuse() gets the message from the library.
    }
    return this.#refuse(given, type)
  }

  #object(given: unknown, type: GraphQLInputObjectType): unknown {
    if (typeof given !== 'object' || given === null || Array.isArray(given)) return this.#refuse(given, type)
    const fields = type.getFields()
    const coerced: Record<string, unknown> = {}
    for (const [name, value] of Object.entries(given)) {
      const field = Object.hasOwn(fields, name) ? fields[name] : undefined
      if (!field) return this.#refuse({ [name]: value }, type)
      coerced[name] = this.#inside(name, value, field.type)
    }
    for (const field of fieldsToFill(type)) {
      if (Object.hasOwn(coerced, field.name)) continue
      if (isRequiredInputField(field)) return this.#refuse(given, type)
      coerced[field.name] = field.defaultValue
    }
    return coerced
  }

  #inside(at: string | number, given: unknown, type: GraphQLInputType): unknown {
    this.#path.push(at)
    const coerced = this.read(given, type)
    this.#path.pop()
    return coerced
  }

  /** The last error counts: the library reports unknown fields after missing ones. */
  #refuse(given: unknown, type: GraphQLInputType): never {
    let message = 'does not fit its type'
    const onError = (_: unknown, __: unknown, error: GraphQLError): void => {
      message = error.message
    }
    coerceInputValue(JSON.parse(exactText(given)), type, onError, this.#hideSuggestions)
    const path = this.#path.map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`)).join('')
    throw new GraphQLError(
      `Variable "$${this.#variable}" got an invalid value at "${this.#variable}${path}"; ${message}`,
    )
  }
}

type Field = ReturnType<GraphQLInputObjectType['getFields']>[string]

/** Fields that are required or have a default. */
function fieldsToFill(type: GraphQLInputObjectType): readonly Field[] {
  const known = required.get(type)
  if (known) return known
  const found = Object.values(type.getFields()).filter(
    (field) => field.defaultValue !== undefined || isNonNullType(field.type),
  )
  required.set(type, found)
  return found
}

const required = new WeakMap<GraphQLInputObjectType, readonly Field[]>()
