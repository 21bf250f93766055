import { badRequest } from '../../core/errors.ts'
import type { Fn, Parameter } from '../../db/schema/snapshot.ts'

/**
 * Resolves the overload of a call. `candidates` are the functions of one name that the caller may execute, fewest
 * parameters first, and never empty; `supplied` are the names of the arguments.
 */
export function resolveOverload(candidates: readonly Fn[], supplied: readonly string[]): Fn {
  const name = candidates[0]?.name ?? ''
  const named = candidates.filter((fn) => fn.parameters.every((parameter) => parameter.name !== ''))
  if (named.length === 0)
    throw badRequest(`function "${name}" has unnamed parameters; cannot match by name`, 'invalid_arguments')
  const fitting = named.filter((fn) => missing(fn, supplied) === undefined && unknown(fn, supplied) === undefined)
  const [best, next] = fitting
  if (best === undefined) throw mismatch(named, supplied)
  if (next && next.parameters.length === best.parameters.length) throw ambiguous(name)
  return best
}

/** The parameters that a call has arguments for, in the order of their declaration. */
export const suppliedParameters = (fn: Fn, supplied: readonly string[]): Parameter[] =>
  fn.parameters.filter(({ name }) => supplied.includes(name))

export const ambiguous = (name: string) => badRequest(`ambiguous call to function "${name}"`, 'invalid_arguments')

/** The error of the overload with the fewest unknown arguments. */
function mismatch(candidates: readonly Fn[], supplied: readonly string[]): Error {
  const unknownCount = (fn: Fn) => supplied.filter((name) => !hasParameter(fn, name)).length
  const [closest] = [...candidates].sort((a, b) => unknownCount(a) - unknownCount(b))
  if (!closest) throw new TypeError('no candidates')
  const absent = missing(closest, supplied)
  return absent === undefined
    ? badRequest(
        `unknown argument "${unknown(closest, supplied) ?? ''}" for function "${closest.name}"`,
        'invalid_arguments',
      )
    : badRequest(`missing required argument "${absent}" for function "${closest.name}"`, 'invalid_arguments')
}

const hasParameter = (fn: Fn, name: string): boolean => fn.parameters.some((parameter) => parameter.name === name)

const missing = (fn: Fn, supplied: readonly string[]): string | undefined =>
  fn.parameters.find(({ name, hasDefault }) => !hasDefault && !supplied.includes(name))?.name

const unknown = (fn: Fn, supplied: readonly string[]): string | undefined =>
  supplied.find((name) => !hasParameter(fn, name))
