import { Offset, Pager } from '../parts/pager.tsx'
import { useAddress } from './navigate.tsx'

/** Of a list with pages, of which the address has the number. */
export function PageNav({ pages, note }: { pages: number; note: string }) {
  const [{ page = '1' }, go] = useAddress()
  return <Pager page={Number(page)} pages={pages} note={note} onPage={(to) => go({ page: String(to) })} />
}

/** Of a list with `limit` and `offset`, which the address has. */
export function OffsetNav({ limit, shown }: { limit: number; shown: number }) {
  const [{ offset = '0' }, go] = useAddress()
  return <Offset offset={Number(offset)} limit={limit} shown={shown} onOffset={(to) => go({ offset: String(to) })} />
}
