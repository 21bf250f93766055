import { createHash } from 'node:crypto'
import type { PageData, PageName } from '../../pages/shared/page-data.ts'
import type { Reply } from '../route.ts'
import { pageScript } from './page-script.ts'
import { style } from './style.ts'

type HtmlDocument<Name extends PageName> = {
  /** Its script is src/pages/<page>.ts. */
  page: Name
  data: PageData[Name]
  title: string
  /** `narrow`: one centered card. */
  layout?: 'narrow'
  /** Trusted HTML; values from outside must go through `escapeHtml`. */
  body: string
}

/**
 * A self-contained HTML page whose content security policy allows only its own script and style. It cannot be framed,
 * sends no referrer, and is not cached.
 */
export async function htmlDocument<Name extends PageName>(document: HtmlDocument<Name>): Promise<Reply> {
  const { page, data, title, layout, body } = document
  const script = await pageScript(page)
  return {
    status: 200,
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Cache-Control': 'no-store',
      'Referrer-Policy': 'no-referrer',
      'Content-Security-Policy': policy(script),
    },
    content: `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)}</title>
<style>${style}</style>
</head>
<body${layout ? ` class="${layout}"` : ''}${attributes(data)}>
${body}
<noscript><p>This page needs JavaScript.</p></noscript>
<script type="module">${script}</script>
</body>
</html>
`,
  }
}

export const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`)

/** Attributes that the script reads as `document.body.dataset`. */
const attributes = (data: Readonly<Record<string, string>>): string =>
  Object.entries(data)
    .map(([name, value]) => ` data-${name.replace(/[A-Z]/g, '-$&').toLowerCase()}="${escapeHtml(value)}"`)
    .join('')

const sourceHash = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

const policy = (script: string): string =>
  [
    "default-src 'none'",
    `script-src ${sourceHash(script)}`,
    `style-src ${sourceHash(style)}`,
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ')
