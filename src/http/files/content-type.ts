import { lookup } from 'mrmime'

const UNKNOWN = 'application/octet-stream'

/** Media types that are valid in a response header. */
const WELL_FORMED = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}$/

/** By extension, else as the client declared, else unknown. Text is assumed to be UTF-8. */
export function contentTypeOf(name: string, declared = ''): string {
  const known: unknown = lookup(name.slice(name.lastIndexOf('/') + 1))
  // Its table has the properties of every object too, such as `constructor`.
  if (typeof known === 'string') return known.startsWith('text/') ? `${known}; charset=utf-8` : known
  return WELL_FORMED.test(declared) ? declared : UNKNOWN
}

/** Types that a browser shows without running scripts, or cannot show. SVG, HTML and XML may contain scripts. */
const PASSIVE =
  /^(?:(?:image\/(?!svg)|audio\/|video\/|font\/)[^;]*(?<!xml)|text\/(?:plain|csv|css|markdown)|application\/(?:json|pdf))$/

export const isPassive = (contentType: string): boolean => PASSIVE.test(contentType.split(';')[0]?.trim() ?? '')
