import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after } from 'node:test'
import Provider from 'oidc-provider'

type Person = { sub: string; email?: string; email_verified?: boolean }

/** A real OpenID Connect provider on loopback whose users sign in and consent without being asked. */
export async function startIssuer(clients: { client_id: string; client_secret: string; redirect_uris: string[] }[]) {
  let person: Person = { sub: 'nobody' }
  const people = new Map<string, Person>()
  const server = createServer((request, response) => {
    const work = request.url?.startsWith('/interaction/')
      ? interact(request, response)
      : provider.callback()(request, response)
    Promise.resolve(work).catch((error) => response.writeHead(500).end(String(error)))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  after(() => void server.close().closeAllConnections())
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  const provider = new Provider(issuer, {
    clients: clients.map((client) => ({
      ...client,
      grant_types: ['authorization_code'],
      response_types: ['code' as const],
    })),
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    cookies: { keys: ['test'] },
    interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
    features: { devInteractions: { enabled: false }, introspection: { enabled: true } },
    pkce: { required: () => true },
    findAccount: (_context, id) => ({ accountId: id, claims: async () => ({ ...people.get(id), sub: id }) }),
  })

  async function interact(...[request, response]: Parameters<ReturnType<Provider['callback']>>): Promise<void> {
    const { prompt, params, session, grantId } = await provider.interactionDetails(request, response)
    if (prompt.name === 'login') {
      await provider.interactionFinished(
        request,
        response,
        { login: { accountId: person.sub } },
        { mergeWithLastSubmission: false },
      )
      return
    }
    const grant = grantId
      ? await provider.Grant.find(grantId)
      : new provider.Grant({ accountId: session?.accountId ?? '', clientId: String(params['client_id']) })
    if (!grant) throw new Error('no grant')
    grant.addOIDCScope('openid email profile')
    await provider.interactionFinished(
      request,
      response,
      { consent: { grantId: await grant.save() } },
      { mergeWithLastSubmission: true },
    )
  }

  return {
    issuer,
    /** Who the next browser signs in as. */
    signsIn(next: Person): void {
      person = next
      people.set(next.sub, next)
    },
    /** A browser with its own cookies follows redirects within the issuer; resolves to the first address outside. */
    async browse(start: string): Promise<string> {
      const cookies = new Map<string, string>()
      let url = start
      for (let hops = 0; hops < 20; hops++) {
        if (!url.startsWith(issuer)) return url
        const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
        const response = await fetch(url, { redirect: 'manual', headers: { cookie } })
        for (const line of response.headers.getSetCookie()) {
          const [name = '', value = ''] = (line.split(';')[0] ?? '').split(/=(.*)/s)
          cookies.set(name, value)
        }
        const location = response.headers.get('location')
        if (location === null) throw new Error(`${response.status} at ${url}: ${await response.text()}`)
        url = new URL(location, url).href
      }
      throw new Error('too many redirects')
    },
  }
}
