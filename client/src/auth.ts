import type { Accounts, Answer, Factors, Mfa, MfaMethod, SignIn, Tokens } from './accounts.ts'
import { type CallOptions, type Core, type Method, NEVER, randomText, sleep } from './core.ts'
import { ApiError, SessionEnded } from './errors.ts'
import { defaultStore } from './session.ts'
import type { Session, User } from './session-store.ts'

const LATE_WRITE_MS = 1_000

type Times = { exp: number; iat: number }

/** How long a token lives, in milliseconds, by the server's own clock. */
function lifeOf(token: string): number {
  try {
    const [, payload = ''] = token.split('.')
    const { exp, iat } = JSON.parse(atob(payload.replaceAll('-', '+').replaceAll('_', '/'))) as Times
    return (exp - iat) * 1000 || 0
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
    left: () => (session ? due - performance.now() : NEVER),
  }

  function onChange(listener: (session: Session | null) => void): () => void {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }

  const open = <T>(path: string, body?: object, call?: CallOptions, token: string | null = null): Promise<T> =>
    core.send('POST', `/api/auth/${path}`, { body, token }, call)
  const own = <T>(method: Method, path: string, body?: object, call?: CallOptions): Promise<T> =>
    core.send(method, `/api/auth/${path}`, { body }, call)

  async function signedIn({ token, refreshToken, user }: Tokens): Promise<{ user: User }> {
    const next = { token, refreshToken, user, at: Date.now() }
    await lock(async () => {
      await store.save(next)
      adopt(next)
    })
    return { user }
  }

  /** Answers the refresh token that is no longer kept. */
  const leave = (): Promise<string | undefined> =>
    lock(async () => {
      const stored = (await store.load()) ?? session
      await store.clear()
      adopt(null)
      return stored?.refreshToken
    })

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
    const ask = <T>(path: string, body?: object, call?: CallOptions): Promise<T> =>
      open(`mfa/${path}`, body, call, mfaToken)
    const challenges = new Map<string, string>()
    const { factors, webauthn, backup_codes } = await core.send<Factors>('GET', '/api/auth/mfa/factors', {
      token: mfaToken,
    })
    async function challenge(method: string, call?: CallOptions): Promise<string> {
      const { challenge_id } = await ask<{ challenge_id: string }>(`${method}/challenge`, undefined, call)
      challenges.set(method, challenge_id)
      return challenge_id
    }
    const verify =
      (method: MfaMethod) =>
      async (code: string, call?: CallOptions): Promise<{ user: User }> => {
        const challenge_id = challenges.get(method) ?? (await challenge(method, call))
        return signedIn(await ask(`${method}/verify`, { challenge_id, code }, call))
      }
    return {
      methods: [
        ...factors.map(({ method }) => method),
        ...(webauthn && accounts.passkey ? (['passkey'] as const) : []),
        ...(backup_codes ? (['backup'] as const) : []),
      ],
      send: challenge as (method: string, call?: CallOptions) => Promise<never>,
      totp: verify('totp'),
      email: verify('email'),
      sms: verify('sms'),
      backup: async (code, call) => signedIn(await ask('backup/verify', { code }, call)),
      passkey: async (call) => signedIn((await accounts.passkey?.(ask, call)) as Tokens),
    }
  }

  const accounts: Accounts = { open, own, signedIn, signIn }
  core.accounts = accounts

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

    /** This device is signed out whatever happens; throws when the server did not hear of it. */
    async logout(call?: CallOptions): Promise<void> {
      const refreshToken = await leave()
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
      await leave()
    },

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
  }
}
