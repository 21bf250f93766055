import { Outlet, useRouterState } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { connection, signOut } from '../api/client.ts'
import { useApi } from '../api/hooks.ts'
import { session } from '../api/session.ts'
import { Icon } from '../parts/icon.tsx'
import { MenuButton } from '../parts/menu.tsx'
import { Button } from '../parts/ui.tsx'
import { Brand } from './brand.tsx'
import { takeCode } from './code.ts'
import { DoneCalls, openDoneCalls } from './done-calls.tsx'
import { environmentColour } from './environment.ts'
import { Link } from './navigate.tsx'
import { PAGES } from './pages.ts'
import { openPalette, Palette } from './palette.tsx'
import { SignIn } from './sign-in.tsx'
import { setTheme, theme } from './theme.ts'
import { ViewAsBanner } from './view-as-banner.tsx'

type Status = { environment?: string; dashboard_locked?: boolean }

export function Shell() {
  const { token, ended } = session.use()
  const path = useRouterState({ select: (state) => state.location.pathname })
  useEffect(() => {
    void takeCode()
    addEventListener('hashchange', takeCode)
    return () => removeEventListener('hashchange', takeCode)
  }, [])
  const isOpenPage = /^(\/admin)?\/api\/?$/.test(path)
  if (!token && !ended && !isOpenPage) return <SignIn />
  return (
    <>
      <div style={{ height: '100%' }} inert={!token && ended}>
        <Frame path={path.replace(/^\/admin(?=\/|$)/, '') || '/'} />
      </div>
      {!token && ended && (
        <div className="cover">
          <SignIn again />
        </div>
      )}
    </>
  )
}

function Frame({ path }: { path: string }) {
  const [menu, setMenu] = useState(false)
  const { token } = session.use()
  const status = useApi<Status>(token ? '/api/admin/status' : null, {}, { fresh: 60_000 })
  const environment = status.data?.environment
  const lost = connection.use()
  useEffect(() => setMenu(false), [path])
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      openPalette()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
  const title = PAGES.flatMap(({ pages }) => pages).find(([to]) => to !== '/' && path.startsWith(to))?.[1] ?? 'Overview'
  const style = environment ? ({ '--env': environmentColour(environment) } as Record<string, string>) : undefined
  return (
    <div className="shell" data-menu={menu ? 'open' : 'closed'} style={style}>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <section className="top" aria-label="Menu">
        <Button look="quiet" icon="menu" aria-label="Menu" aria-expanded={menu} onClick={() => setMenu(!menu)} />
        <strong>{title}</strong>
        <Button look="quiet" icon="search" aria-label="Search" onClick={openPalette} />
      </section>
      <Side path={path} environment={environment} />
      <button type="button" className="scrim" aria-label="Close menu" onClick={() => setMenu(false)} />
      <div className="banner">
        {lost && (
          <p className="banner-line lost" role="status">
            <Icon name="warn" /> {lost}
          </p>
        )}
        <ViewAsBanner />
      </div>
      <main className="main" id="main" tabIndex={-1}>
        <Outlet />
      </main>
      <Palette />
      <DoneCalls />
    </div>
  )
}

function Side({ path, environment }: { path: string; environment: string | undefined }) {
  const { token } = session.use()
  const isCurrent = (to: string): boolean => (to === '/' ? path === '/' : path === to || path.startsWith(`${to}/`))
  return (
    <header className="side">
      <Link to="/" className="brand-link" label="Savanna, overview">
        <Brand env={environment} />
      </Link>
      <div className="side-search">
        <button type="button" className="button search-button" onClick={openPalette}>
          <Icon name="search" /> Search <kbd>Ctrl K</kbd>
        </button>
      </div>
      <nav className="nav" aria-label="Pages">
        {PAGES.map(({ group, pages }) => (
          <div key={group}>
            {group && <h2>{group}</h2>}
            <ul>
              {pages.map(([to, title, icon]) => (
                <li key={to}>
                  <NavLink to={to} title={title} icon={icon} isCurrent={isCurrent(to)} />
                </li>
              ))}
            </ul>
          </div>
        ))}
      </nav>
      <div className="side-foot">
        <ThemeMenu />
        <Button
          look="quiet"
          icon="copy"
          aria-label="What was done, as calls"
          title="What was done, as calls"
          onClick={openDoneCalls}
        />
        {token ? (
          <Button look="quiet" icon="logout" onClick={signOut}>
            Sign out
          </Button>
        ) : (
          <Link to="/" className="button">
            Sign in
          </Link>
        )}
      </div>
    </header>
  )
}

function NavLink({
  to,
  title,
  icon,
  isCurrent,
}: {
  to: string
  title: string
  icon: Parameters<typeof Icon>[0]['name']
  isCurrent: boolean
}) {
  return (
    <Link to={to} {...(isCurrent && { current: true })}>
      <Icon name={icon} />
      {title}
    </Link>
  )
}

/** On the server too; the page is signed out whether or not that answers. */
function ThemeMenu() {
  const chosen = theme.use()
  const icon = { system: 'monitor', light: 'sun', dark: 'moon' } as const
  return (
    <MenuButton
      label="Theme"
      look="quiet"
      icon={icon[chosen]}
      items={(['system', 'light', 'dark'] as const).map((name) => ({
        label: { system: 'As the system', light: 'Light', dark: 'Dark' }[name],
        icon: icon[name],
        ...(name === chosen && { end: 'now' }),
        run: () => setTheme(name),
      }))}
    />
  )
}

export function NotFound() {
  return (
    <div className="page">
      <h1>There is no such page</h1>
      <p>
        Go to the <Link to="/">overview</Link>, or press <kbd>Ctrl K</kbd> and type what you look for.
      </p>
    </div>
  )
}
