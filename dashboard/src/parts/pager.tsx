import { Button } from './ui.tsx'

export function Pager({
  page,
  pages,
  note,
  onPage,
}: {
  page: number
  pages: number
  note?: string
  onPage(page: number): void
}) {
  return (
    <nav className="pager" aria-label="Pages of the list">
      <span className="grow">{note}</span>
      {pages > 1 && (
        <>
          <Button
            look="small"
            icon="left"
            aria-label="Earlier page"
            disabled={page <= 1}
            onClick={() => onPage(page - 1)}
          />
          <span>{`${page} of ${pages}`}</span>
          <Button
            look="small"
            icon="right"
            aria-label="Later page"
            disabled={page >= pages}
            onClick={() => onPage(page + 1)}
          />
        </>
      )}
    </nav>
  )
}

/** Of lists with `limit` and `offset`, which do not say how many there are. */
export function Offset({
  offset,
  limit,
  shown,
  onOffset,
}: {
  offset: number
  limit: number
  shown: number
  onOffset(offset: number): void
}) {
  if (offset === 0 && shown < limit) return null
  return (
    <nav className="pager" aria-label="Pages of the list">
      <span className="grow" />
      <Button
        look="small"
        icon="left"
        aria-label="Newer"
        disabled={offset === 0}
        onClick={() => onOffset(Math.max(0, offset - limit))}
      />
      <span>{`${offset + 1} to ${offset + shown}`}</span>
      <Button
        look="small"
        icon="right"
        aria-label="Older"
        disabled={shown < limit}
        onClick={() => onOffset(offset + limit)}
      />
    </nav>
  )
}
