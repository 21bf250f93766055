import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6

/**
 * Cloud metadata services outside the link-local range: AWS over IPv6, Google over IPv6, Alibaba, Azure, Oracle.
 * They return credentials of the machine, so no setting allows them.
 */
const METADATA = new Set(['fd00:ec2::254', 'fd20:ce::254', '100.100.100.200', '168.63.129.16', '192.0.0.192'])

/** Ranges that an `allow private networks` setting opens; all other non-public ranges stay closed. */
const PRIVATE = new Set(['loopback', 'private', 'uniqueLocal', 'carrierGradeNat'])

/** The bad ports of the Fetch standard that matter to a server, and the databases and caches beside it. */
const CLOSED_PORTS = new Set(
  `1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119 123 135
  137 139 143 161 179 389 427 445 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993 995
  1433 1521 1719 1720 1723 2049 2375 2376 2379 3306 3389 3659 4045 4190 5060 5061 5432 5900 5984 6000 6379 6566 6665
  6666 6667 6668 6669 6697 9042 10080 11211 27017`
    .split(/\s+/)
    .map(Number),
)

export const isClosedPort = (port: number): boolean => CLOSED_PORTS.has(port)

/** Whether the server may connect to this resolved address. */
export function isAllowedAddress(text: string, allowPrivateNetworks: boolean): boolean {
  if (!ipaddr.isValid(text)) return false
  const address = effectiveAddress(ipaddr.parse(text))
  if (METADATA.has(address.toString())) return false
  const range = address.range()
  return range === 'unicast' || (allowPrivateNetworks && PRIVATE.has(range))
}

/** Whether a server that listens on this host is reachable only from this machine. */
export const isLoopbackHost = (host: string): boolean =>
  host === 'localhost' || (ipaddr.isValid(host) && effectiveAddress(ipaddr.parse(host)).range() === 'loopback')

/** The IPv4 address inside a transition format, which is where the packet goes; otherwise the address itself. */
function effectiveAddress(address: Address): Address {
  if (!(address instanceof ipaddr.IPv6)) return address
  const bytes = address.toByteArray()
  const at = embeddedIpv4(bytes)
  if (at === undefined) return address
  const four = bytes.slice(at.offset, at.offset + 4).map((byte) => byte ^ at.mask)
  return new ipaddr.IPv4(four)
}

type EmbeddedIpv4 = { offset: number; mask: number }

function embeddedIpv4(bytes: readonly number[]): EmbeddedIpv4 | undefined {
  const starts = (...prefix: number[]): boolean => prefix.every((byte, i) => bytes[i] === byte)
  const zero = (from: number, to: number): boolean => bytes.slice(from, to).every((byte) => byte === 0)

  if (zero(0, 10) && bytes[10] === 0xff && bytes[11] === 0xff) return { offset: 12, mask: 0 } // RFC 4291 mapped
  if (zero(0, 8) && bytes[8] === 0xff && bytes[9] === 0xff && zero(10, 12)) return { offset: 12, mask: 0 } // RFC 6145
  if (starts(0x00, 0x64, 0xff, 0x9b)) return { offset: 12, mask: 0 } // RFC 6052 and RFC 8215 NAT64
  if (starts(0x20, 0x02)) return { offset: 2, mask: 0 } // RFC 3056 6to4
  if (starts(0x20, 0x01, 0x00, 0x00)) return { offset: 12, mask: 0xff } // RFC 4380 Teredo, inverted
  // RFC 4291 IPv4-compatible (deprecated), except :: and ::1.
  if (zero(0, 12) && !zero(12, 15)) return { offset: 12, mask: 0 }
  return undefined
}
