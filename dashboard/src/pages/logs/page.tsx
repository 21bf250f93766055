import { useEffect, useRef, useState } from 'react'
import { useApi } from '../../api/hooks.ts'
import { useAddress } from '../../app/navigate.tsx'
import { clock, text } from '../../parts/format.ts'
import { Page } from '../../parts/page.tsx'
import { Button, Check, Empty, Field, Loaded } from '../../parts/ui.tsx'

type Entry = { time: string; level: string; message: string; attrs?: Record<string, unknown> }

const LEVELS = ['DEBUG', 'INFO', 'WARN', 'ERROR']

export default function LogsPage() {
  const [{ find = '', level = 'INFO' }, go] = useAddress()
  const [isLive, setLive] = useState(true)
  const [isOwn, setOwn] = useState(false)
  const logs = useApi<{ entries: Entry[] }>('/api/admin/logs', {}, isLive ? { every: 1_500 } : {})
  const end = useRef<HTMLDivElement>(null)
  const last = logs.data?.entries.at(-1)?.time
  useEffect(() => {
    if (isLive && last) end.current?.scrollIntoView({ block: 'nearest' })
  }, [isLive, last])
  const least = LEVELS.indexOf(level)
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
        <div className="grow">
          <Field label="Find">
            {(props) => (
              <input
                className="input"
                type="search"
                {...props}
                value={find}
                placeholder="A message, path, request id, status"
                onChange={(event) => go({ find: event.target.value || undefined }, { replace: true })}
              />
            )}
          </Field>
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
      <Loaded of={logs}>
        {({ entries }) => {
          const fits = entries.filter((entry) => {
            if (LEVELS.indexOf(entry.level) < least) return false
            const path = String(entry.attrs?.['route'] ?? '')
            if (
              !isOwn &&
              entry.message === 'request' &&
              entry.level !== 'ERROR' &&
              /^\/(api\/admin\/(logs|status|stats)|metrics|health|admin)/.test(path)
            )
              return false
            return (
              find === '' || `${entry.message} ${text(entry.attrs ?? {})}`.toLowerCase().includes(find.toLowerCase())
            )
          })
          if (fits.length === 0) return <Empty title="Nothing fits" icon="list" />
          return (
            <div className="table-wrap" style={{ maxHeight: '65dvh' }} tabIndex={0} role="region" aria-label="Log">
              <ol className="log">
                {fits.slice(-1_000).map((entry, index) => (
                  <li key={`${entry.time} ${index}`}>
                    <span className="muted">{clock(entry.time)}</span>
                    <span className={entry.level}>{entry.level}</span>
                    <span>
                      {entry.message} <span className="attrs isolate">{attrsOf(entry.attrs)}</span>
                    </span>
                  </li>
                ))}
              </ol>
              <div ref={end} />
            </div>
          )
        }}
      </Loaded>
    </Page>
  )
}

const attrsOf = (attrs: Record<string, unknown> = {}): string =>
  Object.entries(attrs)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}=${text(value)}`)
    .join(' ')
