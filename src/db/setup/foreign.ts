import type pg from 'pg'

/** A database that another backend made: by which, and whether `svc adopt` has been through. */
export type ForeignDatabase = { product: 'Supabase' | 'AllYourBase'; isAdopted: boolean }

/**
 * Recognised by the tables of its users. A copy that `svc adopt` made counts too: what was closed there by a missing grant
 * has to stay closed here.
 */
export async function foreignDatabase(client: pg.Client): Promise<ForeignDatabase | undefined> {
  const { rows } = await client.query<Record<'supabase' | 'ayb' | 'from_supabase' | 'from_ayb', string>>(`
    select pg_catalog.to_regclass('auth.users') is not null as supabase,
      exists (select from pg_catalog.pg_class where relkind in ('r', 'p') and pg_catalog.starts_with(relname::text, '_ayb_')) as ayb,
      exists (select from svc.adopted where source = 'supabase') as from_supabase,
      exists (select from svc.adopted where source = 'allyourbase') as from_ayb`)
  const is = (what: keyof (typeof rows)[number]): boolean => rows[0]?.[what] === 't'
  const isAdopted = is('from_supabase') || is('from_ayb')
  if (is('supabase') || is('from_supabase')) return { product: 'Supabase', isAdopted }
  return is('ayb') || is('from_ayb') ? { product: 'AllYourBase', isAdopted } : undefined
}

/** For the operator, at every start until it is adopted; `granted`: schemas that were opened before. */
export function notAdopted({ product, isAdopted }: ForeignDatabase, granted: readonly string[]): string[] {
  if (isAdopted) return []
  const sign = product === 'Supabase' ? 'auth.users' : '_ayb_ tables'
  const rights =
    granted.length === 0
      ? 'visitors and users were granted nothing'
      : `nothing more is granted to visitors and users, who have had rights in ${granted.join(', ')}`
  return [
    `this is a database of ${product} (${sign}) that was not adopted: ${rights}; see svc adopt ${product.toLowerCase()} --in-place`,
  ]
}
