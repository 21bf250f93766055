import { type ReactNode, useEffect } from 'react'
import { visible } from './format.ts'

type PageProps = {
  title: string
  /** In front of the title: where one came from. */
  crumb?: ReactNode
  note?: ReactNode
  actions?: ReactNode
  badge?: ReactNode
  children: ReactNode
  look?: 'narrow' | 'full' | ''
}

export function Page({ title, crumb, note, actions, badge, children, look = 'narrow' }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Savanna`
  }, [title])
  return (
    <div className={`page ${look}`}>
      <header className="page-head">
        {crumb}
        <h1 className="isolate">{visible(title)}</h1>
        {badge}
        {actions && <div className="page-actions">{actions}</div>}
        {note && <p className="page-note">{note}</p>}
      </header>
      {children}
    </div>
  )
}
