import { AppError } from '../../core/errors.ts'

/** What a browser fetches to run or to style a page with (Fetch standard, request destinations). */
const RUN = /^(?:script|style|(?:shared|service)?worker|[a-z]*worklet)$/

/**
 * Throws 403 when a browser would run the answer, or style a page with it: files of others on an origin of ours must not
 * count as 'self' there. Every answer says `Vary` of NEVER_SCRIPT, else a cache would give to `import()` what a link was given.
 */
export function requireNoScript(headers: Readonly<Record<string, string | undefined>>): void {
  if (RUN.test(headers['sec-fetch-dest'] ?? ''))
    throw new AppError('forbidden', 'files are not served as scripts or styles', { headers: NEVER_SCRIPT })
}

export const NEVER_SCRIPT = { Vary: 'Sec-Fetch-Dest' }

/** The types of scripts (MIME Sniffing standard, section 4.6), styles and WebAssembly. */
const RUNS =
  /^(?:(?:application|text)\/(?:x-)?(?:ecmascript|javascript)|text\/(?:javascript1\.[0-5]|jscript|livescript|css)|application\/wasm)$/

/** A type under which no browser runs the bytes, given `nosniff`; for those that send no Sec-Fetch-Dest. */
export function plainType(contentType: string): string {
  const [type = '', ...parameters] = contentType.split(';')
  return RUNS.test(type.trim().toLowerCase()) ? ['text/plain', ...parameters].join(';') : contentType
}
