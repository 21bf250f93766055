import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { targetOf } from './proxy.ts'

/** Codes of the first message of a connection (PostgreSQL manual, section 54.7). */
const SSL_REQUEST = 80_877_103
const CANCEL_REQUEST = 80_877_102

/** Of this test, signed by itself; connection strings need `sslmode=no-verify`. */
const KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgQ5KPbecMLURZ2vM/
PB3AHeBxOJe4rdeywtj8JtlMHR6hRANCAASHMbY5cd0hFCaHivO3Tho/U5nwQqbC
hulCW8cDXyhEdkU7vL+Giz0xQgcCGh1EzBxP2xrDGdEZX7ASIy3INZnp
-----END PRIVATE KEY-----`
const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBfzCCASWgAwIBAgIUcBJWixckJdKUBOoEv8yu3GBzr2owCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJMTI3LjAuMC4xMCAXDTI2MTExNzIyNTQ0MloYDzIxMjYxMDI0
MjI1NDQyWjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAASHMbY5cd0hFCaHivO3Tho/U5nwQqbChulCW8cDXyhEdkU7vL+Giz0x
QgcCGh1EzBxP2xrDGdEZX7ASIy3INZnpo1MwUTAdBgNVHQ4EFgQUhFMFFSeh7Isu
ZMGfSrgSoaJxTrUwHwYDVR0jBBgwFoAUhFMFFSeh7IsuZMGfSrgSoaJxTrUwDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiAPJPjZ5km0z+V3cn3/vAer
9/CrOPVWBdlKT7vIIz96SQIhAMblZVI6G88NnwHnJEF6pZbPBf2MWOpQ/MnKum7n
Xw9t
-----END CERTIFICATE-----`

export type TlsProxy = {
  /** The same database over TLS. */
  url: string
  /** How clients began: over TLS or in the clear, and what came first. */
  readonly begun: readonly string[]
  close(): void
}

/** Stands in front of a PostgreSQL without TLS and speaks TLS, as one behind a load balancer does. */
export async function startTlsProxy(databaseUrl: string): Promise<TlsProxy> {
  const begun: string[] = []
  const open = new Set<Socket>()
  const server = createServer((client) => {
    open.add(client)
    client.on('error', () => {})
    client.once('data', (first) => {
      if (first.readInt32BE(4) !== SSL_REQUEST) return serve(client, 'plain', first)
      client.write('S')
      const secure = new TLSSocket(client, { isServer: true, key: KEY, cert: CERTIFICATE })
      secure.on('error', () => {})
      secure.once('data', (message) => serve(secure, 'tls', message))
    })
  })

  function serve(client: Socket, way: string, first: Buffer): void {
    begun.push(`${way} ${first.readInt32BE(4) === CANCEL_REQUEST ? 'cancel' : 'login'}`)
    const upstream = connect(targetOf(databaseUrl))
    open.add(upstream)
    upstream.on('error', () => client.destroy())
    upstream.write(first)
    client.pipe(upstream).pipe(client)
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = new URL(databaseUrl)
  url.searchParams.delete('host')
  url.searchParams.set('sslmode', 'no-verify')
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url: url.href,
    begun,
    close: () => {
      server.close()
      for (const socket of open) socket.destroy()
    },
  }
}
