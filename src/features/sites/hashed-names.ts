const DATE = /^(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])$/

/**
 * Whether a build tool put a hash of the content into the name, as in `app.3f9ab21c.js`, `index-BxY1_z9Q.js` and
 * `chunk-5DQXZ3KR.css`: the content behind such a name never changes. Long words, as in `my-component.js`, and
 * dates do not count, because a file that is wrongly cached for a year cannot be recalled.
 */
export function hasHash(path: string): boolean {
  const stem = path
    .slice(path.lastIndexOf('/') + 1)
    .replace(/(?:\.[a-z][a-z0-9]{0,7}){1,2}$/i, (tail) => keepHash(tail))
  const last = stem.split(/[.-]/).at(-1) ?? ''
  const eight = /[.-]([\w-]{8})$/.exec(stem)?.[1] ?? ''
  return stem !== last && (isHash(last) || isHash(eight))
}

/** Removes extensions such as `.js.map`, but not a hash that resembles one. */
const keepHash = (tail: string): string => {
  const [, first = '', second] = tail.split('.')
  return second !== undefined && isHash(first) ? `.${first}` : ''
}

function isHash(text: string): boolean {
  if (text.length < 8) return false
  if (/^[0-9a-f]+$/i.test(text)) return !DATE.test(text)
  if (/^[A-Z0-9]+$/.test(text)) return /\d/.test(text) && /[A-Z]/.test(text)
  return /[A-Z]/.test(text) && /[a-z]/.test(text) && /[\d_]/.test(text)
}
