import type { PageName } from '../../pages/shared/page-data.ts'

/** Types of scripts/build.js, which is plain JavaScript. */
type Build = { bundlePage(name: PageName): Promise<string> }

/**
 * The script of a page. A server that runs from sources bundles it at each request, so that a reload shows edits; in a
 * build, scripts/build.js replaces this module with the bundled scripts.
 */
export async function pageScript(name: PageName): Promise<string> {
  const { bundlePage } = (await import(new URL('../../../scripts/build.js', import.meta.url).href)) as Build
  return bundlePage(name)
}
