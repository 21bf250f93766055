/** The plain-text part of a mail. The converter is loaded with the first mail, not at start. */
export async function textOf(html: string): Promise<string> {
  const { compile } = await import('html-to-text')
  convert ??= compile({
    wordwrap: false,
    limits: { maxDepth: 50, maxChildNodes: 20_000, maxInputLength: 1_000_000, ellipsis: '…' },
    selectors: [
      { selector: 'a', options: { hideLinkHrefIfSameAsText: true, linkBrackets: ['(', ')'] } },
      { selector: 'img', format: 'skip' },
      ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6'].map((selector) => ({ selector, options: { uppercase: false } })),
    ],
  })
  return convert(html)
}

let convert: ((html: string) => string) | undefined
