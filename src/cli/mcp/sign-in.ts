import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { type Loopback, openLoopback } from '../../http/out/loopback.ts'

type Metadata = { authorization_endpoint: string; token_endpoint: string; registration_endpoint?: string }
type Tokens = { access_token: string; refresh_token?: string; expires_in: number }

const WAIT_MS = 5 * 60_000

/** Signs the user in by the browser (RFC 8252): a page of the server, and an answer to a port of this machine. */
export class BrowserSignIn {
  readonly #base: string
  readonly #tell: (line: string) => void
  #tokens: Promise<Tokens> | undefined
  #clientId = ''

  constructor(base: string, tell: (line: string) => void) {
    this.#base = base
    this.#tell = tell
  }

  /** `again`: the last token was refused, so it is renewed, or the user is asked once more. */
  async token(again: boolean): Promise<string> {
    if (again && this.#tokens) {
      const old = await this.#tokens.catch(() => undefined)
      this.#tokens = old?.refresh_token === undefined ? undefined : this.#renew(old.refresh_token)
    }
    this.#tokens ??= this.#signIn()
    const tokens = this.#tokens
    tokens.catch(() => {
      if (this.#tokens === tokens) this.#tokens = undefined
    })
    return (await tokens).access_token
  }

  async #renew(refreshToken: string): Promise<Tokens> {
    const { token_endpoint } = await this.#metadata()
    const form = { grant_type: 'refresh_token', refresh_token: refreshToken, client_id: this.#clientId }
    return this.#exchange(token_endpoint, form).catch(() => this.#signIn())
  }

  async #metadata(): Promise<Metadata> {
    const answer = await fetch(`${this.#base}/.well-known/oauth-authorization-server`).catch((cause: unknown) => {
      throw new Error(`no server answers at ${this.#base}`, { cause })
    })
    if (!answer.ok) throw new Error(`${this.#base} has no OAuth server: set auth.oauth_provider.enabled`)
    return (await answer.json()) as Metadata
  }

  async #resource(): Promise<string> {
    const answer = await fetch(`${this.#base}/.well-known/oauth-protected-resource/api/mcp`)
    if (!answer.ok) throw new Error(`agents are not enabled at ${this.#base}: set agents.enabled`)
    return ((await answer.json()) as { resource: string }).resource
  }

  async #signIn(): Promise<Tokens> {
    const metadata = await this.#metadata()
    const loopback = await openLoopback()
    try {
      const redirect = `http://127.0.0.1:${loopback.port}/callback`
      this.#clientId = await this.#register(metadata)
      const [verifier, state] = [randomBytes(32).toString('base64url'), randomBytes(16).toString('base64url')]
      const address = new URL(metadata.authorization_endpoint)
      const asked = {
        response_type: 'code',
        client_id: this.#clientId,
        redirect_uri: redirect,
        scope: 'readwrite',
        state,
        code_challenge: createHash('sha256').update(verifier).digest('base64url'),
        code_challenge_method: 'S256',
        resource: await this.#resource(),
      }
      for (const [name, value] of Object.entries(asked)) address.searchParams.set(name, value)
      this.#tell(`Sign in at ${address.href}`)
      openBrowser(address.href)
      const code = await codeFrom(loopback, state)
      const form = {
        grant_type: 'authorization_code',
        code,
        redirect_uri: redirect,
        code_verifier: verifier,
        client_id: this.#clientId,
      }
      return await this.#exchange(metadata.token_endpoint, form)
    } finally {
      loopback.close()
    }
  }

  /** Any port of the loopback address is the same redirect URI. */
  async #register({ registration_endpoint: endpoint }: Metadata): Promise<string> {
    if (this.#clientId !== '') return this.#clientId
    if (endpoint === undefined) {
      throw new Error('the server registers no applications: set auth.oauth_provider.registration')
    }
    const body = JSON.stringify({ client_name: 'svc mcp', redirect_uris: ['http://127.0.0.1/callback'] })
    const answer = await fetch(endpoint, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    const { client_id: id, error_description: why } = (await answer.json()) as {
      client_id?: string
      error_description?: string
    }
    if (id === undefined) throw new Error(why ?? `the server answered ${answer.status}`)
    return id
  }

  async #exchange(endpoint: string, form: Record<string, string>): Promise<Tokens> {
    const answer = await fetch(endpoint, { method: 'POST', body: new URLSearchParams(form) })
    if (!answer.ok) throw new Error(`the server refused the sign-in (${answer.status})`)
    return (await answer.json()) as Tokens
  }
}

/** Waits for the browser to come back. */
async function codeFrom(loopback: Loopback, state: string): Promise<string> {
  const answer = await loopback.callback(
    (query) => query.get('state') === state,
    (query) =>
      query.has('code') ? 'You are signed in. You can close this page.' : 'Access was denied. You can close this page.',
    WAIT_MS,
  )
  const code = answer?.get('code')
  if (answer === undefined) throw new Error('no one signed in within five minutes')
  if (!code) throw new Error('the user denied the access')
  return code
}

/** Where there is no browser the address on stderr is enough. */
function openBrowser(url: string): void {
  const programs: Partial<Record<NodeJS.Platform, [string, string[]]>> = {
    darwin: ['open', [url]],
    win32: ['cmd', ['/c', 'start', '', url.replaceAll('&', '^&')]],
  }
  const [program, args] = programs[process.platform] ?? ['xdg-open', [url]]
  const child = spawn(process.env['BROWSER'] ?? program, process.env['BROWSER'] ? [url] : args, {
    stdio: 'ignore',
    detached: true,
  })
  child.on('error', () => {})
  child.unref()
}
