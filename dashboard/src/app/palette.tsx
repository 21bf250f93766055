import { useQuery } from '@tanstack/react-query'
import { useEffect, useId, useRef, useState } from 'react'
import { get, signOut } from '../api/client.ts'
import { useSchema } from '../api/schema.ts'
import { session } from '../api/session.ts'
import { endViewAs, startViewAs, viewAs } from '../api/view-as.ts'
import { visible } from '../parts/format.ts'
import { Icon, type IconName } from '../parts/icon.tsx'
import { createStore } from '../parts/store.ts'
import { openDoneCalls } from './done-calls.tsx'
import { tablePath, useGo, usePreload } from './navigate.tsx'
import { PAGES } from './pages.ts'
import { setTheme } from './theme.ts'

const isOpen = createStore(false)
export const openPalette = (): void => isOpen.set(true)

type Entry = { name: string; kind: string; icon: IconName; run(): void; to?: string }

export function Palette() {
  return isOpen.use() ? <PaletteDialog /> : null
}

const SECTIONS = ['auth settings', 'effective configuration', 'backups', 'administrators', 'version', 'rotate secrets']

function useEntries(search: string): Entry[] {
  const go = useGo()
  const { token } = session.use()
  const { schema } = useSchema()
  const users = useQuery({
    queryKey: ['/api/admin/users', { palette: search }],
    queryFn: () => get<{ items: { id: string; email: string }[] }>('/api/admin/users', { search, perPage: 5 }),
    enabled: token !== null && search.length > 1,
  })
  const config = useQuery({
    queryKey: ['/api/admin/config'],
    queryFn: () => get<{ items: { key: string }[] }>('/api/admin/config'),
    enabled: token !== null && search.length > 1,
    staleTime: 300_000,
  })
  const pages: Entry[] = PAGES.flatMap(({ pages: all }) =>
    all.map(([to, name, icon]) => ({ name, icon, kind: 'Page', to, run: () => go(to) })),
  )
  const tables: Entry[] = [...(schema?.tables.keys() ?? [])].map((name) => ({
    name,
    icon: 'table',
    kind: 'Table',
    to: tablePath(name),
    run: () => go(tablePath(name)),
  }))
  const commands: Entry[] = [
    { name: 'New table', icon: 'plus', run: () => go('/tables', { new: '1' }) },
    { name: 'New SQL tab', icon: 'sql', run: () => go('/sql', { new: '1' }) },
    { name: 'View as a visitor', icon: 'eye', run: () => void startViewAs({ anonymous: true }, 'a visitor') },
    ...(viewAs.get() ? [{ name: 'Back to administrator', icon: 'eye' as const, run: endViewAs }] : []),
    { name: 'Light theme', icon: 'sun', run: () => setTheme('light') },
    { name: 'Dark theme', icon: 'moon', run: () => setTheme('dark') },
    { name: 'Theme of the system', icon: 'monitor', run: () => setTheme('system') },
    { name: 'What was done, as curl and client calls', icon: 'copy', run: openDoneCalls },
    { name: 'Invite a user', icon: 'user', run: () => go('/users', { new: 'invite' }) },
    { name: 'Sign out', icon: 'logout', run: signOut },
  ].map((entry) => ({ ...entry, kind: 'Command' }) as Entry)
  const keys = (config.data?.items ?? []).map(({ key }) => key)
  const settings: Entry[] = [...SECTIONS, ...keys].map((name) => ({
    name,
    icon: 'settings',
    kind: 'Setting',
    run: () => go('/settings', keys.includes(name) ? { find: name } : {}),
  }))
  const people: Entry[] = (users.data?.items ?? []).map(({ id, email }) => ({
    name: email || id,
    icon: 'user',
    kind: 'User',
    run: () => go(`/users/${encodeURIComponent(id)}`),
  }))
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  const fits = ({ name, kind }: Entry): boolean => words.every((word) => `${name} ${kind}`.toLowerCase().includes(word))
  const order = (entry: Entry): number => (entry.name.toLowerCase().startsWith(words[0] ?? '') ? 0 : 1)
  const known = [...pages, ...tables, ...commands, ...settings].filter(fits)
  return [...known.sort((a, b) => order(a) - order(b)), ...people].slice(0, 60)
}

function PaletteDialog() {
  const dialog = useRef<HTMLDialogElement>(null)
  const [search, setSearch] = useState('')
  const [index, setIndex] = useState(0)
  const id = useId()
  const entries = useEntries(search)
  useEffect(() => dialog.current?.showModal(), [])
  const close = (): void => isOpen.set(false)
  const run = (entry: Entry | undefined): void => {
    close()
    entry?.run()
  }
  const at = Math.min(index, Math.max(0, entries.length - 1))
  const { preload, rest, leave } = usePreload()
  const to = entries[at]?.to
  useEffect(() => {
    if (to) rest(to)
    return leave
  }, [to])
  useEffect(() => {
    document.getElementById(`${id}-${at}`)?.scrollIntoView({ block: 'nearest' })
  }, [at, id])
  return (
    <dialog ref={dialog} className="dialog palette" aria-label="Search" onCancel={close} onClose={close}>
      <input
        role="combobox"
        aria-label="Find a page, table, user, setting or command"
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-activedescendant={entries.length > 0 ? `${id}-${at}` : undefined}
        placeholder="Find a page, table, user, setting or command"
        value={search}
        onChange={(event) => {
          setSearch(event.target.value)
          setIndex(0)
        }}
        onKeyDown={(event) => {
          const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 }
          const move = moves[event.key]
          if (move !== undefined) {
            event.preventDefault()
            setIndex((at + move + entries.length) % Math.max(1, entries.length))
          } else if (event.key === 'Enter') {
            event.preventDefault()
            run(entries[at])
          }
        }}
      />
      <ul role="listbox" id={`${id}-list`} aria-label="Found">
        {entries.map((entry, position) => (
          <li
            key={`${entry.kind} ${entry.name}`}
            id={`${id}-${position}`}
            role="option"
            aria-selected={position === at}
            onPointerDown={() => entry.to && preload(entry.to)}
            onClick={() => run(entry)}
            onKeyDown={() => undefined}
          >
            <Icon name={entry.icon} />
            <span className="name isolate">{visible(entry.name)}</span>
            <span className="kind">{entry.kind}</span>
          </li>
        ))}
      </ul>
      {entries.length === 0 && <p className="dialog-body muted">Nothing is called that.</p>}
    </dialog>
  )
}
