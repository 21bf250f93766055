import { useNavigate, useRouter, useSearch } from '@tanstack/react-router'
import type { ReactNode } from 'react'

/** Everything in an address is text; a page reads what it knows and leaves the rest. */
export type Search = Record<string, string | undefined>

type LinkProps = {
  to: string
  search?: Search
  children: ReactNode
  className?: string
  label?: string
  current?: boolean
}

/** A pointer or a focus that passes on stays less long. */
const REST_MS = 65
let resting: ReturnType<typeof setTimeout> | undefined

/** What the pointer or the focus rests on is likely to be opened next: its code is loaded, and a table's first rows are read. */
export function usePreload() {
  const router = useRouter()
  const preload = (to: string, search: Search = {}): void => {
    clearTimeout(resting)
    router.preloadRoute({ to, search } as never).catch(() => undefined)
  }
  return {
    preload,
    rest(to: string, search?: Search): void {
      clearTimeout(resting)
      resting = setTimeout(() => preload(to, search), REST_MS)
    },
    leave: () => clearTimeout(resting),
  }
}

/** To an address under /admin, written out: names in it are encoded by `tablePath` and the like. */
export function Link({ to, search, children, className, label, current }: LinkProps) {
  const router = useRouter()
  const { preload, rest, leave } = usePreload()
  const href = addressOf(to, search)
  return (
    <a
      href={`/admin${href}`}
      className={className}
      aria-label={label}
      aria-current={current ? 'page' : undefined}
      onMouseEnter={() => rest(to, search)}
      onMouseLeave={leave}
      onFocus={() => rest(to, search)}
      onBlur={leave}
      onPointerDown={() => preload(to, search)}
      onClick={(event) => {
        if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return
        event.preventDefault()
        router.history.push(`/admin${href}`)
      }}
    >
      {children}
    </a>
  )
}

function addressOf(to: string, search?: Search): string {
  const query = new URLSearchParams(
    Object.entries(search ?? {}).flatMap(([name, value]) => (value ? [[name, value]] : [])),
  ).toString()
  return query ? `${to}?${query}` : to
}

/** A table's name is one segment of the address. */
export const tablePath = (name: string): string => `/tables/${encodeURIComponent(name)}`

export function useGo(): (to: string, search?: Search) => void {
  const router = useRouter()
  return (to, search) => router.history.push(`/admin${addressOf(to, search)}`)
}

/** What the address says beside its path, and how to change it: the address is the state. */
export function useAddress(): [Search, (change: Search, options?: { replace?: boolean }) => void] {
  const search = useSearch({ strict: false }) as Search
  const navigate = useNavigate()
  return [
    search,
    (change, options = {}) =>
      void navigate({
        to: '.',
        search: ((before: Search) => ({ ...before, ...change })) as never,
        replace: options.replace ?? false,
      }),
  ]
}
