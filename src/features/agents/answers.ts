import { AppError } from '../../core/errors.ts'
import { fenced } from './marks.ts'
import type { ToolResult } from './protocol.ts'

/** The whole body of an answer. */
const MAX_BYTES = 64 * 1024
/** For the frame of the protocol around it. */
const FRAME_BYTES = 1024

type Fields = Readonly<Record<string, unknown>>

export type AnswerParts = {
  readonly content: Fields
  /** The member that may be cut, where there is one. */
  readonly list?: string
  /** Members that are left out, one after the other, before the whole is refused: of what has been done already. */
  readonly spare?: readonly string[]
  /** Columns that others may have written. */
  readonly others?: readonly string[]
  /** Sentences for the model, before the data. */
  readonly notes?: readonly string[]
}

const CUT = 'The answer was cut to 64 KiB: ask for less.'

/** An answer of a tool within its bounds. Rows go first, then long texts in them. */
export function answerOf(parts: AnswerParts): ToolResult {
  const whole = build(parts, parts.content)
  if (isSmall(whole)) return whole
  const notes = [CUT, ...(parts.notes ?? [])]
  const cut = (content: Fields): ToolResult => build({ ...parts, notes }, { ...content, truncated: true })
  const list = parts.list === undefined ? undefined : parts.content[parts.list]
  if (parts.list !== undefined && Array.isArray(list)) {
    let [low, high] = [0, list.length]
    while (low < high) {
      const middle = Math.ceil((low + high) / 2)
      if (isSmall(cut({ ...parts.content, [parts.list]: list.slice(0, middle) }))) low = middle
      else high = middle - 1
    }
    if (low > 0) return cut({ ...parts.content, [parts.list]: list.slice(0, low) })
  }
  for (const most of [8_000, 2_000, 400, 80]) {
    const first = Array.isArray(list) && parts.list !== undefined ? { [parts.list]: list.slice(0, 1) } : {}
    const shorter = cut(shortened({ ...parts.content, ...first }, most) as Fields)
    if (isSmall(shorter)) return shorter
  }
  const left: Record<string, unknown> = { ...parts.content }
  for (const name of parts.spare ?? []) {
    delete left[name]
    const smaller = cut(left)
    if (isSmall(smaller)) return smaller
  }
  throw new AppError('response_too_large', 'the answer is larger than 64 KiB')
}

function build({ others = [], notes = [] }: AnswerParts, content: Fields): ToolResult {
  const text = [...notes, fenced(JSON.stringify(content), others)].join('\n')
  return { structuredContent: content, text }
}

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value))
const isSmall = ({ structuredContent, text }: ToolResult): boolean =>
  bytesOf(structuredContent) + bytesOf(text) <= MAX_BYTES - FRAME_BYTES

function shortened(value: unknown, most: number): unknown {
  if (typeof value === 'string') return value.length > most ? `${value.slice(0, most)}…` : value
  if (Array.isArray(value)) return value.slice(0, most).map((one) => shortened(one, most))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, shortened(inner, most)]))
}

/** A refusal, as a model can read it. */
export function refusalOf(error: AppError, others: readonly string[] = []): ToolResult {
  const { code, error: word, message, data } = error.toJSON()
  const content = {
    code,
    error: word,
    message: message.slice(0, 2_000),
    ...(data && bytesOf(data) < 8_000 && { data }),
  }
  return { structuredContent: content, text: fenced(JSON.stringify(content), others), isError: true }
}
