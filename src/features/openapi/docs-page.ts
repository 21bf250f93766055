import { escapeHtml, htmlDocument } from '../../http/html/document.ts'
import type { Reply } from '../../http/route.ts'

/** The API reference as a page, rendered in the browser from the OpenAPI document without external resources. */
export const docsPage = (appName: string): Promise<Reply> =>
  htmlDocument({
    page: 'docs',
    title: `${appName} API`,
    body: `<h1>${escapeHtml(appName)} API</h1>
<p class="soft">The machine-readable form is <a href="/api/openapi.json">/api/openapi.json</a>. With a token it shows what that caller may use.</p>
<main></main>`,
    data: {},
  })
