import { type CallOptions, type Core, type Method, queryText, randomText, segment, sleep } from './core.ts'
import { ApiError, SessionEnded } from './errors.ts'
import { defaultStore } from './session.ts'
import type { Session, User } from './session-store.ts'

type Tokens = { token: string; refreshToken: string; user: User }
type Answer = Tokens & { mfa_pending?: boolean; mfa_token?: string }

/** The user who is signed in, or the second factor that is missing. */
export type SignIn = { user: User; mfa?: undefined } | { mfa: Mfa; user?: undefined }

export type MfaMethod = 'totp' | 'email' | 'sms'

/** The second factor of a sign-in that is not complete. */
export type Mfa = {
  methods: (MfaMethod | 'passkey' | 'backup')[]
  /** Sends a code by mail or SMS. */
  send(method: 'email' | 'sms', call?: CallOptions): Promise<void>
  totp(code: string, call?: CallOptions): Promise<{ user: User }>
  email(code: string, call?: CallOptions): Promise<{ user: User }>
  sms(code: string, call?: CallOptions): Promise<{ user: User }>
  backup(code: string, call?: CallOptions): Promise<{ user: User }>
  passkey(call?: CallOptions): Promise<{ user: User }>
}

export type Passkey = {
  credential_id: string
  display_name: string
  transports: string[]
  created_at: string
  last_used_at?: string
}

export type ActiveSession = {
  id: string
  user_agent: string
  ip_address: string
  created_at: string
  last_active_at: string
  current: boolean
}

/** Factors as the server lists them. */
export type Factors = {
  factors: { id: string; method: MfaMethod; label?: string; phone?: string; email?: string }[]
  webauthn: number
  backup_codes: number
}

const LATE_WRITE_MS = 1_000

/** How long a token lives, in milliseconds, by the server's own clock. */
function lifeOf(token: string): number {
  try {
    const [, payload = ''] = token.split('.')
    const { exp, iat } = JSON.parse(atob(payload.replaceAll('-', '+').replaceAll('_', '/'))) as Record<string, number>
    return ((exp ?? 0) - (iat ?? 0)) * 1000
  } catch {
    // Not a token that can be read, so it is renewed at once.
    return 0
  }
}

export type Auth = ReturnType<typeof createAuth>

/** Accounts and sessions. From here on the calls of this client are those of who is signed in. */
export function createAuth(core: Core) {
  const { key } = core.options
  const store = core.options.session ?? defaultStore(core.url)
  const listeners = new Set<(session: Session | null) => void>()
  let session: Session | null = null
  /** By the monotonic clock: when the token is renewed, and when it ends. */
  let due = 0
  let end = 0
  let refreshing: Promise<void> | undefined
  let turn: Promise<unknown> = Promise.resolve()

  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const next = turn.then(work, work)
    turn = next.catch(() => {})
    return next
  }
  const lock = <T>(work: () => Promise<T>): Promise<T> => (store.lock ? store.lock(work) : inTurn(work))

  function adopt(next: Session | null): void {
    const isSame = next?.token === session?.token && next?.user.id === session?.user.id
    session = next
    if (isSame) return
    if (next) {
      const life = lifeOf(next.token)
      const age = Math.max(0, Date.now() - (next.at ?? Date.now()))
      end = performance.now() + life - age
      due = end - Math.min(60_000, life / 5)
    }
    for (const listener of listeners) listener(next)
  }

  const load = async (): Promise<void> => adopt(await store.load())
  const first = store.load()
  const loaded = first instanceof Promise ? first.then(adopt) : adopt(first)
  store.onChange?.(() => void load())

  /** Writes of other tabs may be seen late, so a moment passes before the store is believed. */
  async function otherThan(refreshToken: string): Promise<Session | null> {
    for (const until = performance.now() + LATE_WRITE_MS; ; await sleep(50)) {
      const stored = await store.load()
      if (stored?.refreshToken !== refreshToken || performance.now() > until || !store.onChange) return stored
    }
  }

  async function rotate(held: Session): Promise<void> {
    let stored = await store.load()
    // Another tab began: what it was answered may be on its way here.
    if (stored?.key) stored = await otherThan(held.refreshToken)
    if (stored?.refreshToken === held.refreshToken) {
      const { refreshToken, key = randomText() } = stored
      // Kept first: if the answer is lost with this page, the next one sends the same.
      await store.save({ ...stored, key })
      try {
        const answer = await core.send<Tokens>(
          'POST',
          '/api/auth/refresh',
          { body: { refreshToken }, token: null, repeat: 'key' },
          { headers: { 'idempotency-key': key } },
        )
        // Another tab may have signed in or out meanwhile.
        stored = await store.load()
        if (stored?.refreshToken === refreshToken) {
          stored = { ...answer, at: Date.now() }
          await store.save(stored)
        }
      } catch (error) {
        if (!(error instanceof ApiError) || error.status !== 401) throw error
        stored = await otherThan(refreshToken)
        if (stored?.refreshToken === refreshToken) {
          await store.clear()
          adopt(null)
          throw new SessionEnded(error)
        }
      }
    }
    adopt(stored)
    if (!stored) throw new SessionEnded()
  }

  const refresh = (): Promise<void> => {
    // Of now: while this one waits for its turn, another tab may renew it.
    const held = session
    refreshing ??= lock(async () => {
      if (held) await rotate(held)
    }).finally(() => {
      refreshing = undefined
    })
    return refreshing
  }

  async function token(): Promise<string | undefined> {
    await loaded
    if (session && performance.now() > due) {
      await refresh().catch((error: unknown) => {
        // As long as the token is good, no answer to the refresh is no reason to refuse the call.
        if (error instanceof SessionEnded || performance.now() > end) throw error
      })
    }
    return session?.token ?? key
  }

  core.caller = {
    who: () => session?.user.id ?? '',
    token,
    async renew(refused) {
      if (session?.token === refused) await refresh()
      return session?.token === refused ? undefined : session?.token
    },
    ready: () => loaded,
    onChange,
    left: () => (session ? due - performance.now() : Number.POSITIVE_INFINITY),
  }

  function onChange(listener: (session: Session | null) => void): () => void {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }

  /** Not of the caller: routes that sign in take no bearer. */
  const open = <T>(path: string, body?: object, call?: CallOptions, token: string | null = null): Promise<T> =>
    core.send('POST', `/api/auth/${path}`, { ...(body && { body }), token }, call)
  const own = <T>(method: Method, path: string, body?: object, call?: CallOptions): Promise<T> =>
    core.send(method, `/api/auth/${path}`, body && { body }, call)

  async function signedIn({ token, refreshToken, user }: Tokens): Promise<{ user: User }> {
    const next = { token, refreshToken, user, at: Date.now() }
    await lock(async () => {
      await store.save(next)
      adopt(next)
    })
    return { user }
  }

  const signIn = async (answer: Answer): Promise<SignIn> =>
    answer.mfa_token ? { mfa: await pending(answer.mfa_token) } : signedIn(answer)

  /** What is found out about the account while signed in as it. */
  async function found(user: User): Promise<User> {
    const next = session?.user.id === user.id && { ...session, user }
    if (next) {
      session = next
      await lock(async () => store.save(next))
    }
    return user
  }

  async function pending(mfaToken: string): Promise<Mfa> {
    const call2 = <T>(path: string, body?: object, call?: CallOptions): Promise<T> =>
      open(`mfa/${path}`, body, call, mfaToken)
    const challenges = new Map<string, string>()
    const { factors, webauthn, backup_codes } = await core.send<Factors>('GET', '/api/auth/mfa/factors', {
      token: mfaToken,
    })
    async function challenge(method: string, call?: CallOptions): Promise<string> {
      const { challenge_id } = await call2<{ challenge_id: string }>(`${method}/challenge`, undefined, call)
      challenges.set(method, challenge_id)
      return challenge_id
    }
    const verify =
      (method: MfaMethod) =>
      async (code: string, call?: CallOptions): Promise<{ user: User }> => {
        const challenge_id = challenges.get(method) ?? (await challenge(method, call))
        return signedIn(await call2(`${method}/verify`, { challenge_id, code }, call))
      }
    return {
      methods: [
        ...factors.map(({ method }) => method),
        ...(webauthn ? (['passkey'] as const) : []),
        ...(backup_codes ? (['backup'] as const) : []),
      ],
      send: async (method, call) => void (await challenge(method, call)),
      totp: verify('totp'),
      email: verify('email'),
      sms: verify('sms'),
      backup: async (code, call) => signedIn(await call2('backup/verify', { code }, call)),
      passkey: async (call) =>
        signedIn(
          await call2('webauthn/verify', await assertion(await call2('webauthn/challenge', undefined, call)), call),
        ),
    }
  }

  type Challenge = { challenge_id: string; options: PublicKeyCredentialRequestOptionsJSON }

  async function assertion({ challenge_id, options }: Challenge) {
    const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options)
    const credential = (await navigator.credentials.get({ publicKey })) as PublicKeyCredential
    return { challenge_id, assertion_response: credential.toJSON() }
  }

  const oauthKept = `savanna:oauth:${core.url}`

  return {
    /** Who is signed in now. */
    get session(): Session | null {
      return session
    },
    onChange,
    register: async (account: { email: string; password: string }, call?: CallOptions) =>
      signedIn(await open('register', account, call)),
    login: async (account: { email: string; password: string }, call?: CallOptions) =>
      signIn(await open('login', account, call)),
    loginAnonymously: async (call?: CallOptions) => signedIn(await open('anonymous', undefined, call)),
    /** Gives an anonymous account an address and a password. */
    link: async (account: { email: string; password: string }, call?: CallOptions) =>
      signedIn(await own('POST', 'link/email', account, call)),

    /** This device is signed out whatever happens; throws when the server did not hear of it. */
    async logout(call?: CallOptions): Promise<void> {
      const refreshToken = await lock(async () => {
        const stored = (await store.load()) ?? session
        await store.clear()
        adopt(null)
        return stored?.refreshToken
      })
      if (refreshToken) await open('logout', { refreshToken }, call)
    },
    /** Renews the token now. */
    async refresh(): Promise<Session | null> {
      await loaded
      await refresh()
      return session
    },
    me: async (call?: CallOptions) => found(await own('GET', 'me', undefined, call)),
    update: async (change: { email?: string; metadata?: unknown }, call?: CallOptions) =>
      found(await own('PATCH', 'me', change, call)),
    async delete(call?: CallOptions): Promise<void> {
      await own('DELETE', 'me', undefined, call)
      await lock(async () => store.clear())
      adopt(null)
    },
    sessions: (call?: CallOptions) => own<ActiveSession[]>('GET', 'sessions', undefined, call),
    /** Ends one session, or all but this one. */
    endSession: (session: { id: string } | 'others', call?: CallOptions) =>
      own<void>(
        'DELETE',
        session === 'others' ? 'sessions?all_except_current=true' : `sessions/${segment(session.id)}`,
        undefined,
        call,
      ),

    resetPassword: (account: { email: string }, call?: CallOptions) => open<void>('password-reset', account, call),
    confirmReset: (change: { token: string; password: string }, call?: CallOptions) =>
      open<void>('password-reset/confirm', change, call),
    /** With the token of the mail; without it another mail is sent. */
    verifyEmail: (proof?: { token: string }, call?: CallOptions) =>
      proof ? open<void>('verify', proof, call) : own<void>('POST', 'verify/resend', undefined, call),
    /** Sends a link; with the token of the link it signs in. */
    magicLink: (async (proof: { email: string } | { token: string }, call?: CallOptions) => {
      if ('email' in proof) return void (await open('magic-link', proof, call))
      return signIn(await open('magic-link/confirm', proof, call, session?.token ?? null))
    }) as {
      (proof: { email: string }, call?: CallOptions): Promise<void>
      (proof: { token: string }, call?: CallOptions): Promise<SignIn>
    },
    /** Sends a code; with the code it signs in. */
    sms: (async (proof: { phone: string; code?: string }, call?: CallOptions) => {
      if (proof.code === undefined) return void (await open('sms', proof, call))
      return signIn(await open('sms/confirm', proof, call))
    }) as {
      (proof: { phone: string }, call?: CallOptions): Promise<void>
      (proof: { phone: string; code: string }, call?: CallOptions): Promise<SignIn>
    },

    /** Leaves for the provider. Afterwards `returned()` signs in, on the page at `redirectTo`. */
    oauth(provider: string, { redirectTo = location.href }: { redirectTo?: string } = {}): void {
      const state = randomText()
      sessionStorage.setItem(oauthKept, state)
      const target = new URL(redirectTo, location.href)
      target.searchParams.set('svc_state', state)
      target.hash = ''
      location.assign(`${core.url}/api/auth/oauth/${segment(provider)}${queryText({ redirect_to: target.href })}`)
    },
    /** Signs in with what a provider's page brought back, if `oauth()` of this tab asked for it. */
    async returned(call?: CallOptions): Promise<SignIn | null> {
      const here = new URL(location.href)
      const state = here.searchParams.get('svc_state')
      const brought = new URLSearchParams(here.hash.slice(1))
      if (!state) return null
      here.searchParams.delete('svc_state')
      here.hash = ''
      history.replaceState(history.state, '', here)
      // A token that an attacker put behind the address would sign the visitor in as the attacker.
      if (state !== sessionStorage.getItem(oauthKept)) return null
      sessionStorage.removeItem(oauthKept)
      const [token, refreshToken, mfa_token] = ['token', 'refreshToken', 'mfa_token'].map((name) => brought.get(name))
      if (mfa_token) return { mfa: await pending(mfa_token) }
      if (!token || !refreshToken) return null
      const user = await core.send<User>('GET', '/api/auth/me', { token }, call)
      return signedIn({ token, refreshToken, user })
    },

    passkey: {
      /** Of this address, or whichever the person chooses. */
      async login(account: { email?: string } = {}, call?: CallOptions) {
        const path = account.email ? 'webauthn/login' : 'webauthn/login/discover'
        const begun = await open<Challenge>(`${path}/begin`, account.email ? account : undefined, call)
        return signedIn(await open(`${path}/finish`, await assertion(begun), call))
      },
      async add({ name = '' }: { name?: string } = {}, call?: CallOptions): Promise<Passkey> {
        const options = await own<PublicKeyCredentialCreationOptionsJSON>(
          'POST',
          'mfa/webauthn/enroll',
          undefined,
          call,
        )
        const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options)
        const made = (await navigator.credentials.create({ publicKey })) as PublicKeyCredential
        const body = { display_name: name, attestation_response: made.toJSON() }
        return (await own<{ credential: Passkey }>('POST', 'mfa/webauthn/enroll/confirm', body, call)).credential
      },
      list: async (call?: CallOptions) =>
        (await own<{ credentials: Passkey[] }>('GET', 'mfa/webauthn/credentials', undefined, call)).credentials,
      rename: ({ id, name }: { id: string; name: string }, call?: CallOptions) =>
        own<Passkey>('PATCH', `mfa/webauthn/credentials/${segment(id)}`, { display_name: name }, call),
      remove: ({ id }: { id: string }, call?: CallOptions) =>
        own<void>('DELETE', `mfa/webauthn/credentials/${segment(id)}`, undefined, call),
    },

    mfa: {
      factors: (call?: CallOptions) => own<Factors>('GET', 'mfa/factors', undefined, call),
      /** Begins: an app gets a secret, an address or a phone a code. */
      enroll: ((method: MfaMethod, with_?: { phone: string }, call?: CallOptions) =>
        own('POST', `mfa/${method}/enroll`, with_, call)) as {
        (
          method: 'totp',
          with_?: undefined,
          call?: CallOptions,
        ): Promise<{ factor_id: string; uri: string; secret: string }>
        (method: 'email', with_?: undefined, call?: CallOptions): Promise<void>
        (method: 'sms', with_: { phone: string }, call?: CallOptions): Promise<void>
      },
      confirm: (method: MfaMethod, code: { code: string }, call?: CallOptions) =>
        own<void>('POST', `mfa/${method}/enroll/confirm`, code, call),
      /** Ten new ones; earlier ones are no longer good. */
      backupCodes: async (call?: CallOptions) =>
        (await own<{ codes: string[] }>('POST', 'mfa/backup/regenerate', undefined, call)).codes,
    },
  }
}
