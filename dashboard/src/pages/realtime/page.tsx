import { type FormEvent, useEffect, useRef, useState } from 'react'
import { createChannels } from 'savanna-client/channels'
import { post, realtime, remove, svc } from '../../api/client.ts'
import { useAction, useApi } from '../../api/hooks.ts'
import { useSchema } from '../../api/schema.ts'
import { Link, useAddress } from '../../app/navigate.tsx'
import { clock, count, text, visible } from '../../parts/format.ts'
import { oneLine } from '../../parts/grid/value.tsx'
import { Page } from '../../parts/page.tsx'
import { Badge, Button, Empty, Field, Loaded, TabPanel, Tabs } from '../../parts/ui.tsx'
import { type Connected, ConnectedTab } from './connected.tsx'

type Heard = { id: number; at: string; action: string; table: string; record: unknown }
const KEPT = 300
const LOOKS = { create: 'ok', update: 'info', delete: 'danger' } as Record<string, 'ok' | 'info' | 'danger'>
const TABS = [
  ['tables', 'Tables'],
  ['channels', 'Channels'],
  ['connected', 'Connected'],
] as const
type Tab = (typeof TABS)[number][0]

export default function RealtimePage() {
  const [search, setSearch] = useAddress()
  const tab: Tab = TABS.find(([name]) => name === search['tab'])?.[0] ?? 'tables'
  const connected = useApi<Connected>('/api/admin/realtime', {}, { every: 2_000 })
  return (
    <Page
      title="Realtime"
      badge={connected.data && <Badge look="info">{`${count(connected.data.count)} connected`}</Badge>}
    >
      <Tabs
        label="Realtime"
        tabs={TABS}
        current={tab}
        onChange={(name) => setSearch({ tab: name === 'tables' ? undefined : name, channel: undefined })}
      />
      <TabPanel name={tab}>
        {tab === 'tables' && <Tables />}
        {tab === 'channels' && <Channels first={search['channel'] ?? ''} />}
        {tab === 'connected' && <Loaded of={connected}>{(data) => <ConnectedTab {...data} />}</Loaded>}
      </TabPanel>
    </Page>
  )
}

function Tables() {
  const { schema } = useSchema()
  const [watched, setWatched] = useState<readonly string[]>([])
  const [heard, setHeard] = useState<readonly Heard[]>([])
  const ids = useRef(0)
  const key = watched.join('\n')
  useEffect(() => {
    const waiting: Heard[] = []
    const flush = setInterval(() => {
      if (waiting.length > 0) setHeard((before) => [...waiting.splice(0).reverse(), ...before].slice(0, KEPT))
    }, 200)
    const ends = key
      .split('\n')
      .filter(Boolean)
      .map((table) =>
        realtime.watch(table, undefined, {
          onChange: ({ action, record }) =>
            waiting.push({ id: ++ids.current, at: new Date().toISOString(), action, table, record }),
        }),
      )
    return () => {
      clearInterval(flush)
      for (const end of ends) end()
    }
  }, [key])
  const names = [...(schema?.tables.values() ?? [])]
    .filter(({ kind }) => kind === 'table' || kind === 'partitioned_table')
    .map(({ name }) => name)
  if (schema && names.length === 0)
    return (
      <Empty title="There is no table to watch" icon="live">
        <p>Changes of its rows appear here as they are committed.</p>
        <Link to="/tables" search={{ new: '1' }} className="button">
          New table
        </Link>
      </Empty>
    )
  return (
    <>
      <fieldset className="panel plain">
        <legend className="legend">Tables to watch</legend>
        <div className="row">
          {names.slice(0, 60).map((name) => (
            <Button
              key={name}
              look="small"
              aria-pressed={watched.includes(name)}
              onClick={() =>
                setWatched(watched.includes(name) ? watched.filter((other) => other !== name) : [...watched, name])
              }
            >
              <span className="isolate">{visible(name)}</span>
            </Button>
          ))}
        </div>
      </fieldset>
      <div className="row">
        <h2 className="grow">Changes</h2>
        <Button look="small" onClick={() => setHeard([])}>
          Clear
        </Button>
      </div>
      {heard.length === 0 && (
        <p className="muted">
          {watched.length === 0 ? 'Choose a table.' : 'Listening. What is committed from now on appears here.'}
        </p>
      )}
      <ol className="log card" aria-live="polite" hidden={heard.length === 0}>
        {heard.map(({ id, at, action, table, record }) => (
          <li key={id}>
            <span className="muted">{clock(at)}</span>
            <Badge look={LOOKS[action] ?? ''}>{action}</Badge>
            <span className="isolate">
              {visible(table)} <span className="attrs">{oneLine(record)}</span>
            </span>
          </li>
        ))}
      </ol>
    </>
  )
}

type Channel = ReturnType<ReturnType<typeof createChannels>['channel']>

/** `first`: a channel that the address names. */
function Channels({ first }: { first: string }) {
  const [name, setName] = useState(first)
  const [joined, setJoined] = useState('')
  const [heard, setHeard] = useState<readonly { id: number; at: string; text: string }[]>([])
  const [members, setMembers] = useState<readonly { from: string | null; state: unknown }[]>([])
  const [payload, setPayload] = useState('{"hello": "world"}')
  const ids = useRef(0)
  const putOut = useAction(
    ({ user }: { user: string }) =>
      remove(`/api/realtime/channels/${encodeURIComponent(joined)}/members/${encodeURIComponent(user)}`),
    { done: 'Put out for ten minutes' },
  )
  const sending = useAction(
    () =>
      post(`/api/realtime/channels/${encodeURIComponent(joined)}`, {
        event: 'dashboard',
        payload: JSON.parse(payload),
      }),
    { done: 'Sent' },
  )
  useEffect(() => {
    if (!joined) return
    const say = (line: string): void =>
      setHeard((before) => [{ id: ++ids.current, at: new Date().toISOString(), text: line }, ...before].slice(0, KEPT))
    const channel: Channel = createChannels(svc.core).channel(joined, {
      onMessage: (message) => say(text(message)),
      onPresence: (present) => setMembers(present as never),
      onLeft: (reason) => say(`left: ${text(reason)}`),
    })
    return () => void channel.leave()
  }, [joined])
  const join = (event: FormEvent): void => {
    event.preventDefault()
    setHeard([])
    setMembers([])
    setJoined(name)
  }
  return (
    <>
      <form className="row" onSubmit={join}>
        <div className="grow">
          <Field label="Channel">
            {(props) => (
              <input
                className="input"
                {...props}
                placeholder="room:1"
                value={name}
                onChange={(event) => setName(event.target.value)}
              />
            )}
          </Field>
        </div>
        <Button type="submit" look="primary" disabled={name === ''}>
          Listen
        </Button>
      </form>
      {joined && (
        <div className="columns">
          <section className="card">
            <h2>Who is there</h2>
            <ul className="panel">
              {members.length === 0 && <li className="muted">Nobody else.</li>}
              {members.map(({ from, state }, index) => (
                <li key={`${from} ${index}`} className="row">
                  <span className="grow isolate">{visible(from ?? 'administrator')}</span>
                  <code className="muted">{text(state)}</code>
                  {from && (
                    <Button look="small danger" onClick={() => putOut.run({ user: from })}>
                      Put out
                    </Button>
                  )}
                </li>
              ))}
            </ul>
          </section>
          <section className="card">
            <h2>Send</h2>
            <Field label="Payload (JSON)">
              {(props) => (
                <textarea
                  className="input mono"
                  rows={3}
                  {...props}
                  value={payload}
                  onChange={(event) => setPayload(event.target.value)}
                />
              )}
            </Field>
            <div>
              <Button busy={sending.busy} onClick={() => sending.run()}>
                Send
              </Button>
            </div>
          </section>
        </div>
      )}
      <ol className="log card" aria-live="polite" hidden={heard.length === 0}>
        {heard.map(({ id, at, text: line }) => (
          <li key={id}>
            <span className="muted">{clock(at)}</span>
            <span />
            <span className="isolate">{visible(line)}</span>
          </li>
        ))}
      </ol>
    </>
  )
}
