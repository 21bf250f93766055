const SLUG = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

export const isSlug = (text: string): boolean => SLUG.test(text)

/**
 * `<slug>.<host of the public base URL>` and `<slug>.localhost` → slug; any port. The last host
 * without slug is compared first, because consecutive requests mostly name the same host.
 */
export class SiteHosts {
  readonly #suffixes: () => readonly string[]
  #lastPlain = ''

  constructor(publicBaseUrl: () => string) {
    this.#suffixes = () => ['.localhost', `.${new URL(publicBaseUrl()).hostname}`]
  }

  slugOf(host: string): string | undefined {
    if (host === this.#lastPlain) return undefined
    const slug = this.#find(host)
    if (slug === undefined) this.#lastPlain = host
    return slug
  }

  #find(host: string): string | undefined {
    const name = host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase()
    for (const suffix of this.#suffixes()) {
      if (name.endsWith(suffix)) {
        const slug = name.slice(0, -suffix.length)
        return isSlug(slug) ? slug : undefined
      }
    }
    return undefined
  }
}
