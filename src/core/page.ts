import * as t from './json-type.ts'

/** Query parameters of a route that lists by pages. */
export const pageQuery = {
  page: t.integer({ default: 1, maximum: 100_000 }),
  perPage: t.integer({ default: 20, maximum: 100 }),
}

const wholeNumber = (text: string | undefined): number =>
  text !== undefined && /^-?\d+$/.test(text.trim()) ? Number(text) : Number.NaN

/** Page numbers are clamped, never refused (docs/api.md, "Pages"). */
export function parsePage(
  query: { readonly page?: string | undefined; readonly perPage?: string | undefined },
  limits: { perPage: number; maxPerPage: number } = { perPage: 20, maxPerPage: 100 },
): { page: number; perPage: number; offset: number } {
  const page = clamp(wholeNumber(query.page), 1, 100_000, 1)
  const perPage = clamp(wholeNumber(query.perPage), 1, limits.maxPerPage, limits.perPage)
  return { page, perPage, offset: (page - 1) * perPage }
}

/** Lists with limit and offset: invalid → default, above the maximum → maximum. */
export function limitOf(
  query: { readonly limit?: string | undefined; readonly offset?: string | undefined },
  limits: { limit: number; maxLimit: number },
): { limit: number; offset: number } {
  return {
    limit: clamp(wholeNumber(query.limit), 1, limits.maxLimit, limits.limit),
    offset: clamp(wholeNumber(query.offset), 0, Number.MAX_SAFE_INTEGER, 0),
  }
}

const clamp = (n: number, min: number, max: number, fallback: number): number =>
  Number.isNaN(n) || n < min ? fallback : Math.min(n, max)

export const pageEnvelope = <T>(items: T[], page: number, perPage: number, totalItems: number) => ({
  items,
  page,
  perPage,
  totalItems,
  totalPages: Math.ceil(totalItems / perPage),
})
