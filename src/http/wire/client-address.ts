import ipaddr from 'ipaddr.js'
import { entryCache } from '../../core/entry-cache.ts'

/** Addresses are kept as they were read, because behind a proxy each request has some, and to read one takes microseconds. */
const KEPT_ADDRESSES = 1_000
/** The longest that is kept: an IPv6 address with its port takes 47, but it may name a zone of any length. */
const KEPT_LENGTH = 64

type Hop = { readonly address: string; readonly isTrusted: boolean }
type CidrRange = ReturnType<typeof ipaddr.parseCIDR>

/** Parses CIDR blocks and single addresses of `server.trusted_proxies`. */
function parseRanges(list: readonly string[]): CidrRange[] {
  return list.map((text) => {
    if (text.includes('/')) return ipaddr.parseCIDR(text)
    const address = ipaddr.process(text)
    return [address, address.kind() === 'ipv4' ? 32 : 128] as CidrRange
  })
}

/** An IPv4 peer of a dual-stack socket reads `::ffff:1.2.3.4`. */
const plainAddress = (address: string | undefined): string => {
  if (address === undefined) return ''
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address
}

/**
 * The peer address, or behind trusted proxies the last untrusted address of X-Forwarded-For. Entries left of it can be
 * forged by the client.
 */
export function createClientAddress(trustedProxies: readonly string[]) {
  const trusted = parseRanges(trustedProxies)
  if (trusted.length === 0) return plainAddress

  const read = (text: string): Hop | undefined => {
    const plain = withoutPort(text.trim())
    if (!ipaddr.isValid(plain)) return undefined
    const address = ipaddr.process(plain)
    const isTrusted = trusted.some(([range, bits]) => range.kind() === address.kind() && address.match(range, bits))
    return { address: address.toString(), isTrusted }
  }
  const kept = entryCache<Hop>(KEPT_ADDRESSES)
  const hopOf = (text: string): Hop | undefined => {
    const known = kept.get(text)
    if (known) return known
    const hop = read(text)
    if (hop && text.length <= KEPT_LENGTH) kept.set(copyOf(text), hop)
    return hop
  }

  return (peer: string | undefined, forwardedFor?: string): string => {
    let client = plainAddress(peer)
    if (forwardedFor === undefined) return client
    let hop = hopOf(client)
    for (const text of forwardedFor.split(',').reverse()) {
      if (!hop?.isTrusted) return client
      hop = hopOf(text)
      if (hop) client = hop.address
    }
    return client
  }
}

/** A part of a string keeps all of it in memory, and a client may send 64 kB of header before its address. */
const copyOf = (part: string): string => Buffer.from(part, 'latin1').toString('latin1')

const withoutPort = (hop: string): string =>
  /^\[([^\]]+)\](?::\d+)?$/.exec(hop)?.[1] ?? /^(\d+\.\d+\.\d+\.\d+):\d+$/.exec(hop)?.[1] ?? hop

/** The key under which an address is counted: an IPv6 /64 belongs to one customer. */
export function addressSubject(ip: string): string {
  if (!ip.includes(':') || !ipaddr.isValid(ip)) return ip
  const address = ipaddr.process(ip)
  if (address.kind() === 'ipv4') return address.toString()
  return `${Buffer.from(address.toByteArray().slice(0, 8)).toString('hex')}/64`
}

/** The network of an address: an IPv4 /24 or an IPv6 /64. */
export const networkOf = (ip: string): string => {
  const subject = addressSubject(ip)
  return subject.replace(/^(\d+\.\d+\.\d+)\.\d+$/, '$1.0/24')
}
