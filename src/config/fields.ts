import { isIP } from 'node:net'
import { resolve } from 'node:path'

/** A value before validation; `text`: it comes from a variable or a flag and must be parsed. */
export type RawValue = { readonly value: unknown; readonly text: boolean; readonly cwd: string }

/** Why a value is invalid; the loader adds the key. */
export class InvalidValue extends Error {}

const refuse = (reason: string): never => {
  throw new InvalidValue(reason)
}

type Extra = { flag?: string }
/** A number, a switch, a choice or a path, which is no secret. */
type Kind = { isPlain?: true }

/** One configuration key: its parser, default and description. */
export class Field<T> {
  /** The type for docs/config.md. */
  readonly type: string
  readonly fallback: unknown
  readonly meaning: string
  readonly flag: string | undefined
  readonly isPlain: boolean
  readonly read: (input: RawValue) => T

  constructor(
    type: string,
    fallback: unknown,
    meaning: string,
    read: (input: RawValue) => T,
    extra: Extra & Kind = {},
  ) {
    this.type = type
    this.fallback = fallback
    this.meaning = meaning
    this.read = read
    this.flag = extra.flag
    this.isPlain = extra.isPlain ?? false
  }
}

/** Tables whose names the operator chooses, such as `auth.oauth.<p>`. */
export class NamedTables<S> {
  readonly spec: S
  readonly allows: (name: string) => boolean
  constructor(spec: S, allows: (name: string) => boolean) {
    this.spec = spec
    this.allows = allows
  }
}

const asText = (input: RawValue, expected: string): string =>
  typeof input.value === 'string' ? input.value : refuse(`expected ${expected}`)

export const str = (fallback: string, meaning: string, extra: Extra & { check?: (text: string) => void } = {}) =>
  new Field(
    'string',
    fallback,
    meaning,
    (input): string => {
      const text = asText(input, 'a string')
      if (text.includes('\0')) refuse('must not contain NUL')
      extra.check?.(text)
      return text
    },
    extra,
  )

export const path = (fallback: string, meaning: string, extra: Extra = {}) =>
  new Field(
    'path',
    fallback,
    meaning,
    (input): string => {
      const text = asText(input, 'a path')
      return text === '' ? '' : resolve(input.cwd, text)
    },
    { ...extra, isPlain: true },
  )

function wholeNumber(input: RawValue, expected: string): number {
  const { value, text } = input
  const n = text && typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value
  return typeof n === 'number' && Number.isSafeInteger(n) ? n : refuse(`expected ${expected}`)
}

type Range = { min?: number; max?: number }

function inRange(n: number, { min = 0, max = Number.MAX_SAFE_INTEGER }: Range): number {
  if (n < min) refuse(`must be at least ${min}`)
  if (n > max) refuse(`must be at most ${max}`)
  return n
}

const rangeText = ({ min, max }: Range): string => {
  if (max !== undefined) return ` ${min ?? 0}–${max}`
  return min === undefined || min === 0 ? '' : ` ≥ ${min}`
}

export const int = (fallback: number, meaning: string, extra: Extra & Range = {}) =>
  new Field(
    `int${rangeText(extra)}`,
    fallback,
    meaning,
    (input): number => inRange(wholeNumber(input, 'an integer'), extra),
    { ...extra, isPlain: true },
  )

export const bool = (fallback: boolean, meaning: string) =>
  new Field('bool', fallback, meaning, (input): boolean => readBool(input), { isPlain: true })

function readBool({ value, text }: RawValue): boolean {
  if (typeof value === 'boolean') return value
  if (text && (value === 'true' || value === '1')) return true
  if (text && (value === 'false' || value === '0')) return false
  return refuse('expected true or false')
}

const UNIT_SECONDS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 }
/** A century, which PostgreSQL's timestamps can represent. */
const LONGEST = 100 * 365 * 86_400

function seconds(input: RawValue): number {
  const [, digits, unit] = /^(\d+)([smhd]?)$/.exec(String(input.value)) ?? []
  if ((typeof input.value !== 'string' && typeof input.value !== 'number') || digits === undefined) {
    return refuse('expected seconds or a duration such as "30s", "5m", "1h", "7d"')
  }
  return Number(digits) * (UNIT_SECONDS[unit ?? ''] ?? 1)
}

export const duration = (fallback: number | string, meaning: string, extra: Range = {}) => {
  const range = { min: 1, max: LONGEST, ...extra }
  const shown = extra.max === undefined ? '' : ` ${range.min}–${range.max}`
  return new Field(`duration${shown}`, fallback, meaning, (input): number => inRange(seconds(input), range), {
    isPlain: true,
  })
}

const UNIT_BYTES: Record<string, number> = { KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3 }

export const size = (fallback: string, meaning: string, extra: Range = { min: 1 }) =>
  new Field(
    'size',
    fallback,
    meaning,
    (input): number => {
      const [, digits, unit] = /^(\d+)(KB|MB|GB)?$/i.exec(String(input.value)) ?? []
      if ((typeof input.value !== 'string' && typeof input.value !== 'number') || digits === undefined) {
        return refuse('expected bytes or a size such as "10KB", "50MB", "1GB"')
      }
      return inRange(Number(digits) * (UNIT_BYTES[(unit ?? '').toUpperCase()] ?? 1), extra)
    },
    { isPlain: true },
  )

/** At most `max` calls in `seconds`; null = no limit. */
export type Rate = { readonly max: number; readonly seconds: number } | null

export const rate = (fallback: string, meaning: string) =>
  new Field(
    'rate',
    fallback,
    meaning,
    (input): Rate => {
      if (input.value === 'off') return null
      const [, digits, unit] = /^(\d{1,9})\/(min|hour)$/.exec(asText(input, 'a rate such as "10/min"')) ?? []
      const max = Number(digits ?? 0)
      if (max < 1) return refuse('expected "N/min", "N/hour" or "off"')
      return { max, seconds: unit === 'hour' ? 3600 : 60 }
    },
    { isPlain: true },
  )

export const listOf = (fallback: readonly string[], meaning: string, extra: { item?: ItemCheck; of?: string } = {}) =>
  new Field(`list${extra.of ? ` of ${extra.of}` : ''}`, fallback, meaning, (input): readonly string[] =>
    items(input).map((item) => (extra.item ? extra.item(item) : item)),
  )

/** Returns the item in normal form, or throws. */
export type ItemCheck = (item: string) => string

/** Splits at commas; a JSON array is for items that contain a comma. */
function split(text: string): unknown {
  return text.trimStart().startsWith('[') ? parsedJson(text) : text.split(',').map((item) => item.trim())
}

function items({ value, text }: RawValue): string[] {
  const found = text && typeof value === 'string' ? split(value) : value
  if (!Array.isArray(found) || !found.every((item) => typeof item === 'string'))
    return refuse('expected a list of strings')
  return found.filter((item) => item !== '')
}

export const durations = (fallback: readonly string[], meaning: string) =>
  new Field(
    'list of durations',
    fallback,
    meaning,
    (input): readonly number[] => {
      const found = input.text && typeof input.value === 'string' ? split(input.value) : input.value
      if (!Array.isArray(found)) return refuse('expected a list of durations')
      return found.filter((item) => item !== '').map((value) => inRange(seconds({ ...input, value }), { max: LONGEST }))
    },
    { isPlain: true },
  )

export const map = (meaning: string, of: string, check: (key: string, value: string) => void) =>
  new Field(`map ${of}`, {}, meaning, (input): Readonly<Record<string, string>> => {
    const found = input.text && typeof input.value === 'string' ? parsedJson(input.value) : input.value
    if (typeof found !== 'object' || found === null || Array.isArray(found)) return refuse('expected a table')
    for (const [key, value] of Object.entries(found)) {
      if (typeof value !== 'string') refuse(`the value of ${key} must be a string`)
      check(key, value)
    }
    return { ...found }
  })

/** Tables without a name, such as `[[auth.issuers]]`; `spec` has the fields of each. */
export const tables = <S extends Readonly<Record<string, Field<unknown>>>>(
  meaning: string,
  spec: S,
  required: readonly (keyof S & string)[],
) =>
  new Field(
    'list of tables',
    [],
    meaning,
    (input): readonly { readonly [K in keyof S]: ReturnType<S[K]['read']> }[] => {
      const found = input.text && typeof input.value === 'string' ? parsedJson(input.value || '[]') : input.value
      if (!Array.isArray(found)) return refuse('expected a list of tables')
      return found.map((item: unknown) => {
        if (typeof item !== 'object' || item === null || Array.isArray(item)) return refuse('expected a list of tables')
        const given = new Map<string, unknown>(Object.entries(item))
        for (const name of given.keys()) if (!Object.hasOwn(spec, name)) refuse(`unknown key ${name}`)
        for (const name of required) if (!given.has(name)) refuse(`${name} is required`)
        const read = ([name, field]: [string, Field<unknown>]) => {
          const value = given.has(name) ? given.get(name) : field.fallback
          return [name, field.read({ value, text: false, cwd: input.cwd })]
        }
        return Object.fromEntries(Object.entries(spec).map(read))
      })
    },
  )

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return refuse('expected JSON')
  }
}

export const choice = <const T extends string>(choices: readonly T[], fallback: T, meaning: string) =>
  new Field(
    choices.map((choice) => choice || '""').join(', '),
    fallback,
    meaning,
    (input): T => {
      const found = choices.find((choice) => choice === input.value)
      return found ?? refuse(`must be one of: ${choices.join(', ')}`)
    },
    { isPlain: true },
  )

export const autoOrBool = (meaning: string) =>
  new Field(
    'auto, true, false',
    'auto',
    meaning,
    (input): 'auto' | boolean => (input.value === 'auto' ? 'auto' : readBool(input)),
    { isPlain: true },
  )

/** Schemes that run code or read files. Other schemes are allowed, because they may open a mobile application. */
const NEVER_LINKED = new Set(['javascript:', 'data:', 'vbscript:', 'file:', 'blob:', 'about:'])

type UrlKind = 'http' | 'link' | 'origin'

/** `http`: called by the server. `link`: followed by a person. `origin`: scheme, host and port only. Empty = not set. */
export const url = (kind: UrlKind, meaning: string, fallback = '') =>
  new Field('url', fallback, meaning, (input): string => {
    const text = asText(input, 'a URL')
    if (text === '') return ''
    const parsed = URL.canParse(text) ? new URL(text) : refuse('expected an absolute URL')
    const isHttp = parsed.protocol === 'http:' || parsed.protocol === 'https:'
    if (kind === 'link' ? NEVER_LINKED.has(parsed.protocol) : !isHttp) refuse('expected an http or https URL')
    if (kind !== 'origin') return text
    if (parsed.href !== `${parsed.origin}/`) refuse('expected an origin such as https://api.example.com')
    return parsed.origin
  })

export const webOrigin: ItemCheck = (item) => {
  const origin = item.replace(/\/$/, '')
  if (origin !== '*' && !/^[a-z][a-z0-9+.-]*:\/\/[^/?#\s]+$/i.test(origin)) refuse(`not an origin: ${item}`)
  return origin.toLowerCase()
}

export const cidr: ItemCheck = (item) => {
  const [address = '', bits, ...rest] = item.split('/')
  const version = isIP(address)
  const longest = version === 4 ? 32 : 128
  const prefixIsFine = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= longest)
  if (version === 0 || !prefixIsFine || rest.length > 0) refuse(`not an address or CIDR block: ${item}`)
  return item
}

export const matching =
  (pattern: RegExp, noun: string, normal: (item: string) => string = (item) => item): ItemCheck =>
  (item) =>
    pattern.test(normal(item)) ? normal(item) : refuse(`not ${noun}: ${item}`)

/** A check that accepts the empty string. */
export const emptyOr =
  (pattern: RegExp, reason: string) =>
  (text: string): void => {
    if (text !== '' && !pattern.test(text)) refuse(reason)
  }
