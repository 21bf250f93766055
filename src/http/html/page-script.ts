import type { PageName } from '../../pages/shared/page-data.ts'

/** Plain JavaScript, which runs before anything is installed. */
type Build = { bundlePage(name: PageName): Promise<string> }

/**
 * The script of a page. A server that runs from sources bundles it at each request, so that a reload shows what was
 * edited; in a build, scripts/build.js has put the finished scripts in place of this module.
 */
export async function pageScript(name: PageName): Promise<string> {
  const { bundlePage } = (await import(new URL('../../../scripts/build.js', import.meta.url).href)) as Build
  return bundlePage(name)
}
