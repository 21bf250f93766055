import { badRequest } from '../../core/errors.ts'
import { HtmlPlace } from './html-place.ts'

const KEY = /^[a-z][a-z0-9]*(\.[a-z][a-z0-9_]*)+$/
const MAX_KEY = 200
const MAX_SUBJECT = 1000
const MAX_HTML = 256_000
/** Limits a template that repeats a long value many times. */
const MAX_RENDERED = 1_000_000
const NAME = /^\.?([A-Za-z][A-Za-z0-9_]*)$/

export type TemplateSource = { subject: string; html: string }
export type Rendered = { subject: string; html: string }
export type TemplateVariables = Readonly<Record<string, unknown>>

/** Alternating text and placeholder names; `texts` has one more item than `names`. */
type Template = { texts: string[]; names: string[] }

export function templateKey(text: string): string {
  if (text.length > MAX_KEY || !KEY.test(text)) throw badRequest('invalid template key format', 'invalid_template')
  return text
}

/** 400 unless both parts are within limits and parse; returns the names they use, in order. */
export function checkTemplate({ subject, html }: TemplateSource): string[] {
  if (subject.length > MAX_SUBJECT || html.length > MAX_HTML)
    throw badRequest('template exceeds size limit', 'invalid_template')
  return [...new Set([...parse(subject).names, ...parse(html).names])]
}

export function renderTemplate(source: TemplateSource, variables: TemplateVariables): Rendered {
  checkTemplate(source)
  return {
    // A line break would end the header (RFC 5322, section 2.2).
    subject: fill(parse(source.subject), variables, (value) => value).replace(/[\r\n\u2028\u2029]/g, ''),
    html: fillHtml(parse(source.html), variables),
  }
}

/** An address that is longer before a value in it renders the value as `#`. */
const MAX_ADDRESS = 2_048
const SCHEME = /^([a-z][a-z0-9+.-]*):/i
const SAFE_SCHEMES = new Set(['http', 'https', 'mailto', 'tel'])

/** Like browsers, ignores leading spaces and controls, and tabs and line breaks inside the address. */
function isSafeAddress(address: string): boolean {
  const scheme = SCHEME.exec(address.replace(/^[\0-\x20]+|[\t\r\n]/g, ''))?.[1]
  return scheme === undefined || SAFE_SCHEMES.has(scheme.toLowerCase())
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** White space would end an attribute without quotes. */
const escapeUnquoted = (text: string): string =>
  escapeValue(text).replace(/[\s=`]/g, (char) => `&#${char.charCodeAt(0)};`)

export const escapeValue = (text: string): string => text.replace(/[&<>"']/g, (char) => ENTITIES[char] ?? '')

function parse(text: string): Template {
  const texts: string[] = []
  const names: string[] = []
  let from = 0
  for (let open = text.indexOf('{{'); open >= 0; open = text.indexOf('{{', from)) {
    const close = text.indexOf('}}', open + 2)
    if (close < 0) throw badRequest('template parse error: unclosed {{', 'invalid_template')
    const inner = text.slice(open + 2, close).trim()
    const name = NAME.exec(inner)?.[1]
    if (name === undefined)
      throw badRequest(`template parse error: unexpected "${inner.slice(0, 50)}"`, 'invalid_template')
    texts.push(text.slice(from, open))
    names.push(name)
    from = close + 2
  }
  texts.push(text.slice(from))
  return { texts, names }
}

type Encode = (value: string, before: string, after: string) => string

/** `before` is what was added since the value before. */
function fill({ texts, names }: Template, variables: TemplateVariables, encode: Encode): string {
  let out = texts[0] ?? ''
  let before = out
  for (const [i, name] of names.entries()) {
    const after = texts[i + 1] ?? ''
    const added = encode(textFor(variables, name), before, after)
    before = added + after
    out += before
    if (out.length > MAX_RENDERED) throw badRequest('template exceeds size limit', 'invalid_template')
  }
  return out
}

function fillHtml(template: Template, variables: TemplateVariables): string {
  const place = new HtmlPlace()
  return fill(template, variables, (value, before, after) => {
    place.read(before)
    if (place.isInMarkup) return '#'
    const { address } = place
    if (address !== undefined) {
      const whole = address + value + (/^[^"'\s>]*/.exec(after)?.[0] ?? '')
      if (address.length > MAX_ADDRESS || !isSafeAddress(whole)) return '#'
    }
    return place.isUnquoted ? escapeUnquoted(value) : escapeValue(value)
  })
}

function textFor(variables: TemplateVariables, name: string): string {
  // Own properties only, so that `constructor` is a missing variable.
  const value = Object.hasOwn(variables, name) ? variables[name] : undefined
  if (value === undefined || value === null)
    throw badRequest(`template render error: missing variable "${name}"`, 'invalid_template')
  if (typeof value === 'string') return value.replaceAll('\0', '')
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  throw badRequest(`template render error: variable "${name}" must be a string`, 'invalid_template')
}
