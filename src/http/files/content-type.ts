import { lookup } from 'mrmime'

const UNKNOWN = 'application/octet-stream'

/** Media types of parts, as far as they can stand in a header of ours. */
const WELL_FORMED = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}$/

/** By extension, else as the client said, else unknown. Text is UTF-8: nobody says so in a file name. */
export function contentTypeOf(name: string, said = ''): string {
  const known = lookup(name.slice(name.lastIndexOf('/') + 1))
  if (known !== undefined) return known.startsWith('text/') ? `${known}; charset=utf-8` : known
  return WELL_FORMED.test(said) ? said : UNKNOWN
}

/** What a browser shows without running anything of it, or cannot show at all. SVG, HTML and XML are documents with scripts. */
const PASSIVE =
  /^(?:(?:image\/(?!svg)|audio\/|video\/|font\/)[^;]*(?<!xml)|text\/(?:plain|csv|css|markdown)|application\/(?:json|pdf))$/

export const isPassive = (contentType: string): boolean => PASSIVE.test(contentType.split(';')[0]?.trim() ?? '')
