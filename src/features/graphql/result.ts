import { Kind, type SelectionNode } from 'graphql'
import { badRequest, hasStatus } from '../../core/errors.ts'
import type { Relayed } from '../../db/db.ts'
import type { Failure } from './query.ts'
import type { GraphqlResult } from './response.ts'
import { meaningOf, type SelectedField } from './selection.ts'

const MAX_ROOT_FIELDS = 200

/** Checked before anything else, and again after fragments are expanded. */
export function requireFewAtRoot(keys: readonly (string | undefined)[]): void {
  if (new Set(keys).size > MAX_ROOT_FIELDS)
    throw badRequest(`more than ${MAX_ROOT_FIELDS} fields at the root`, 'query_too_complex')
}

export const responseKey = (selection: SelectionNode): string | undefined =>
  selection.kind === Kind.FIELD ? (selection.alias ?? selection.name).value : undefined

/** Whether a root field of a mutation runs triggers or other user code. */
export function runsUserCode({ field }: SelectedField): boolean {
  const meaning = field && meaningOf(field)
  return meaning !== undefined && 'of' in meaning && meaning.of.table.runsUserCode
}

export const isOutage = (error: unknown): boolean => hasStatus(error, 503)

export const refused = (errors: readonly Failure[]): GraphqlResult => ({
  status: 200,
  json: JSON.stringify({ data: null, errors }),
  wrote: false,
})

/** Joins PostgreSQL's JSON texts in the order of the document. */
export function answered(
  selected: readonly SelectedField[],
  data: ReadonlyMap<string, Relayed>,
  failures: readonly Failure[],
  wrote: boolean,
): GraphqlResult {
  const parts: Relayed[] = []
  for (const { key } of selected) {
    parts.push(`${parts.length === 0 ? '{"data":{' : ','}${JSON.stringify(key)}:`, data.get(key) ?? 'null')
  }
  if (parts.length === 0) parts.push('{"data":{')
  parts.push(failures.length > 0 ? `},"errors":${JSON.stringify(failures)}}` : '}}')
  const isShort = parts.every((part) => typeof part === 'string')
  const asBytes = (part: Relayed): Buffer => (typeof part === 'string' ? Buffer.from(part) : part)
  return { status: 200, json: isShort ? parts.join('') : parts.map(asBytes), wrote }
}
