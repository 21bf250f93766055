import { isStorableJson } from '../../core/storable.ts'
import type { AccountData, ExtraClaims } from '../../identity/hooks.ts'
import { OWN_CLAIMS } from '../../identity/hooks.ts'
import { metadataText } from '../../identity/metadata.ts'

export type HookAnswer = Readonly<Record<string, unknown>>

const MAX_CLAIMS_BYTES = 4_096

const isObject = (value: unknown): value is HookAnswer =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** No answer, and null, are that of a hook that has nothing to say. */
export function answerObject(value: unknown): HookAnswer {
  if (value === undefined || value === null) return {}
  if (!isObject(value)) throw new Error('the answer is no JSON object')
  return value
}

/** What is not understood may have been meant as a refusal. */
function requireKnown(answer: HookAnswer, known: readonly string[]): void {
  const unknown = Object.keys(answer).find((name) => !known.includes(name))
  if (unknown !== undefined) throw new Error(`the answer has an unknown member: ${unknown.slice(0, 64)}`)
}

function storable(text: string): string {
  if (!isStorableJson(text)) throw new Error('the answer has a character that PostgreSQL cannot store')
  return text
}

function metadataOf(value: unknown, name: string): string | undefined {
  if (value === undefined || value === null) return undefined
  if (!isObject(value)) throw new Error(`${name} is no JSON object`)
  return storable(metadataText(value))
}

export function accountDataOf(answer: HookAnswer): AccountData {
  requireKnown(answer, ['metadata', 'app_metadata'])
  const metadata = metadataOf(answer['metadata'], 'metadata')
  const appMetadata = metadataOf(answer['app_metadata'], 'app_metadata')
  return { ...(metadata !== undefined && { metadata }), ...(appMetadata !== undefined && { appMetadata }) }
}

export const requireNothing = (answer: HookAnswer): void => requireKnown(answer, [])

/** The claims themselves, or `{claims}`. */
export function addedClaims(answer: HookAnswer): ExtraClaims {
  const isNamed = Object.hasOwn(answer, 'claims')
  if (isNamed) requireKnown(answer, ['claims'])
  const claims = answerObject(isNamed ? answer['claims'] : answer)
  const own = Object.keys(claims).find((name) => OWN_CLAIMS.has(name))
  if (own !== undefined) throw new Error(`the claim ${own} is the server's own`)
  if (Buffer.byteLength(storable(JSON.stringify(claims))) > MAX_CLAIMS_BYTES)
    throw new Error('claims have more than 4 KB')
  return claims
}

const MAX_MESSAGE = 300

/** A message for the caller, in one line; undefined where there is none. */
export function messageIn(value: unknown): string | undefined {
  const text = isObject(value) ? value['message'] : value
  if (typeof text !== 'string') return undefined
  const line = Buffer.from(text)
    .toString()
    .replace(/\p{C}+/gu, ' ')
    .trim()
    .slice(0, MAX_MESSAGE)
  return line === '' ? undefined : line
}
