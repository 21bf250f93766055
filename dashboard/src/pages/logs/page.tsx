import { useEffect, useRef, useState } from 'react'
import { Find } from '../../app/find.tsx'
import { useAddress } from '../../app/navigate.tsx'
import { clock, text, visible } from '../../parts/format.ts'
import { Page } from '../../parts/page.tsx'
import { useSettled } from '../../parts/settled.ts'
import { Button, Check, Empty, ErrorLine, Field, Loading } from '../../parts/ui.tsx'
import { type Entry, useLog } from './use-log.ts'

const LEVELS = ['DEBUG', 'INFO', 'WARN', 'ERROR']

export default function LogsPage() {
  const [{ find = '', level = 'INFO' }, go] = useAddress()
  const [isLive, setLive] = useState(true)
  const [isOwn, setOwn] = useState(false)
  const { entries, note, error } = useLog({ find: useSettled(find), level, isLive })
  const end = useRef<HTMLDivElement>(null)
  const last = entries?.at(-1)?.id
  useEffect(() => {
    if (isLive && last) end.current?.scrollIntoView({ block: 'nearest' })
  }, [isLive, last])
  const fits = entries?.filter((entry) => isOwn || !isOfPage(entry)) ?? []
  return (
    <Page
      title="Logs"
      actions={
        <Button icon={isLive ? 'stop' : 'play'} aria-pressed={isLive} onClick={() => setLive(!isLive)}>
          {isLive ? 'Live' : 'Paused'}
        </Button>
      }
      note="The newest entries of all workers of this server."
    >
      <div className="row">
        <div className="grow wide-field">
          <Find label="Find" placeholder="A message, path, request id, status" labelled />
        </div>
        <Field label="Least level">
          {(props) => (
            <select className="input" {...props} value={level} onChange={(event) => go({ level: event.target.value })}>
              {LEVELS.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          )}
        </Field>
        <Check label="Calls of this page too" checked={isOwn} onChange={setOwn} />
      </div>
      <ErrorLine error={error} />
      {note && <p className="muted">{note}</p>}
      {entries === null && !error && <Loading />}
      {entries !== null && fits.length === 0 && (
        <Empty title="Nothing fits" icon="list">
          <p>New entries appear by themselves. What log.level leaves out is not kept, whatever level is chosen here.</p>
        </Empty>
      )}
      {fits.length > 0 && (
        <div className="table-wrap" style={{ maxHeight: '65dvh' }} tabIndex={0} role="region" aria-label="Log">
          <ol className="log">
            {fits.map((entry) => (
              <li key={entry.id}>
                <span className="muted">{clock(entry.time)}</span>
                <span className={entry.level}>{entry.level}</span>
                <span>
                  {visible(entry.message)} <span className="attrs isolate">{visible(attrsOf(entry.attrs))}</span>
                </span>
              </li>
            ))}
          </ol>
          <div ref={end} />
        </div>
      )}
    </Page>
  )
}

/** What this and other pages of the dashboard ask for again and again. */
const isOfPage = ({ message, level, attrs }: Entry): boolean =>
  message === 'request' &&
  level !== 'ERROR' &&
  /^\/(api\/admin\/(logs|status|stats|figures)|metrics|health|admin)/.test(String(attrs?.['route'] ?? ''))

const attrsOf = (attrs: Record<string, unknown> = {}): string =>
  Object.entries(attrs)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}=${text(value)}`)
    .join(' ')
