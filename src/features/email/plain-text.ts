/** Limits the HTML parser, whose time grows with the square of the nesting. */
const MAX_ELEMENTS = 15_000

let convert: ((html: string) => string) | undefined

/** The plain-text part of a mail. */
export async function plainTextOf(html: string): Promise<string> {
  if (elements(html) > MAX_ELEMENTS) return html.replace(/<[^<>]*>/g, ' ').trim()
  convert ??= await loadConverter()
  return convert(html)
}

/** Loaded with the first mail, not at start. */
async function loadConverter(): Promise<(html: string) => string> {
  const { compile } = await import('html-to-text')
  return compile({
    wordwrap: false,
    limits: { maxDepth: 50, maxChildNodes: 20_000, maxInputLength: 1_000_000, ellipsis: '…' },
    selectors: [
      { selector: 'a', options: { hideLinkHrefIfSameAsText: true, linkBrackets: ['(', ')'] } },
      { selector: 'img', format: 'skip' },
      ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6'].map((selector) => ({ selector, options: { uppercase: false } })),
    ],
  })
}

const elements = (html: string): number => html.match(/<[a-z]/gi)?.length ?? 0
