/** Which servers a connection may go to (libpq's `target_session_attrs`). */
export type SessionAttrs = 'any' | 'primary' | 'read-write'

export type Hosts = {
  /** A connection string for each host, in the order of the given one. */
  readonly urls: readonly string[]
  readonly attrs: SessionAttrs
}

/**
 * A connection string with several hosts, as libpq reads it: `postgres://user@h1:5432,h2:5433/db`, or hosts and ports as
 * lists in the query. `pg` knows one host only, so each gets a string of its own.
 */
export function hostsOf(url: string): Hosts {
  const parts = partsOf(url)
  if (!parts) return { urls: [url], attrs: 'primary' }
  const { scheme, user, hosts, path, query } = parts
  const given = query.get('target_session_attrs')
  const attrs: SessionAttrs = given === 'any' || given === 'read-write' ? given : 'primary'
  query.delete('target_session_attrs')
  const listed = split(query.get('host'))
  const ports = split(query.get('port'))
  if (listed.length > 1 || ports.length > 1) {
    const urls = listed.map((host, i) => {
      const own = new URLSearchParams(query)
      own.set('host', host)
      const port = ports[i] ?? ports[0]
      if (port !== undefined) own.set('port', port)
      return `${scheme}${user}${path}?${own}`
    })
    return { urls, attrs }
  }
  if (hosts.length === 1 && given === null) return { urls: [url], attrs }
  const rest = query.size > 0 ? `?${query}` : ''
  return { urls: hosts.map((host) => `${scheme}${user}${host}${path}${rest}`), attrs }
}

/** Whether it is one server, on the machine of this process. */
export function isNearby(url: string): boolean {
  if (!URL.canParse(url) || hostsOf(url).urls.length > 1) return false
  const { hostname, searchParams } = new URL(url)
  const host = searchParams.get('host') ?? hostname
  return host === '' || host.startsWith('/') || /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(host)
}

/** The hosts for people, without login and database. */
export function hostNames(url: string): string {
  const parts = partsOf(url)
  if (!parts) return ''
  return parts.query.get('host') ?? parts.hosts.join(',')
}

const split = (list: string | null): string[] => (list === null || list === '' ? [] : list.split(','))

/** Not by URL, which takes one host. */
function partsOf(url: string) {
  const [, scheme, authority, path, search] = /^(postgres(?:ql)?:\/\/)([^/?]*)([^?]*)(?:\?(.*))?$/s.exec(url) ?? []
  if (scheme === undefined || authority === undefined) return undefined
  const at = authority.lastIndexOf('@') + 1
  return {
    scheme,
    user: authority.slice(0, at),
    hosts: authority.slice(at).split(','),
    path: path ?? '',
    query: new URLSearchParams(search ?? ''),
  }
}
