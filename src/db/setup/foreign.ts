import type pg from 'pg'

/** A database that another backend made: by which, and whether `svc adopt` has been through. */
export type ForeignDatabase = { product: 'Supabase' | 'AllYourBase'; isAdopted: boolean }

/**
 * Recognised by the tables of its users. A copy that `svc adopt` made counts too: what was closed there by a missing grant
 * has to stay closed here.
 */
export async function foreignDatabase(client: pg.Client): Promise<ForeignDatabase | undefined> {
  const { rows } = await client.query<{ supabase: string; ayb: string; adopted: string | null }>(`
    select pg_catalog.to_regclass('auth.users') is not null as supabase,
      exists (select from pg_catalog.pg_class where relkind in ('r', 'p') and pg_catalog.starts_with(relname::text, '_ayb_')) as ayb,
      (select pg_catalog.min(source) from (select distinct source from svc.adopted where source in ('supabase', 'allyourbase')) s) as adopted`)
  const [row] = rows
  const isSupabase = row?.supabase === 't' || row?.adopted === 'supabase'
  if (!isSupabase && row?.ayb !== 't' && !row?.adopted) return undefined
  return { product: isSupabase ? 'Supabase' : 'AllYourBase', isAdopted: row?.adopted != null }
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
