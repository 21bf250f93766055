import { randomUUID } from 'node:crypto'
import { AppError, isMistake, reasonOf, serverBusy } from '../../core/errors.ts'
import { KeyedLimit, Semaphore } from '../../core/limits.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import { databaseMessage } from '../../db/pg-errors.ts'
import { GiveUp } from '../../db/queue/queue.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import type { BeforeSignUp, SessionFacts, SessionHooks } from '../../identity/hooks.ts'
import type { Device } from '../../identity/session.ts'
import { accountDataOf, addedClaims, type HookAnswer, requireNothing } from './answers.ts'
import { type CallHook, endpointHook, functionHook, HookRefusal } from './call.ts'

const NAMES = ['before_sign_up', 'before_sign_in', 'token_claims', 'send_email', 'send_sms'] as const
type HookName = (typeof NAMES)[number]

/** Each is `schema.function`, a URL, or empty. */
type HooksConfig = { readonly secret: string } & { readonly [name in HookName]: string } & {
  readonly [secret in `${HookName}_secret`]: string
} & { readonly [onError in `${HookName}_on_error`]: 'refuse' | 'skip' }

/** Whether one of them is a function in the database. */
export const hasHookFunctions = (config: HooksConfig): boolean =>
  NAMES.some((name) => config[name] !== '' && !config[name].includes('/'))

type Deps = {
  db: Db
  outgoing: Outgoing
  observe: Observe
  config: HooksConfig
  maxConns: number
  /** Why functions cannot be called: there is no login for callers that could become svc_hooks. */
  noFunctions: string | undefined
}

/** Calls under way of this process, and those of one caller. */
const CALLS = { total: 64, perKey: 8 }
/** Of callers' connections; the rest of them is for callers. */
const connectionsOf = (maxConns: number): number => Math.min(8, Math.max(1, Math.floor(maxConns / 4)))

const ACTS: { readonly [name in HookName]: string } = {
  before_sign_up: 'sign-up',
  before_sign_in: 'sign-in',
  token_claims: 'sign-in',
  send_email: 'mail',
  send_sms: 'message',
}

type Message = Readonly<Record<'id' | 'to' | 'subject' | 'html' | 'text' | 'template' | 'body', string>>
/** Resolves to false where the hook failed and is skipped. */
type SendByHook<Keys extends keyof Message> = (message: Pick<Message, Keys>) => Promise<boolean>

type AuthHooks = SessionHooks & {
  beforeSignUp?: BeforeSignUp
  sendEmail?: SendByHook<'id' | 'to' | 'subject' | 'html' | 'text' | 'template'>
  sendSms?: SendByHook<'to' | 'body'>
}

/** Code of the operator's that has a say in sign-up, sign-in and messages; members are undefined without a hook. */
export function createAuthHooks(deps: Deps): AuthHooks {
  const { config, observe } = deps
  const calls = new KeyedLimit(CALLS)
  const turns = new Semaphore(connectionsOf(deps.maxConns))

  function callOf(name: HookName): CallHook | undefined {
    const target = config[name]
    if (target === '') return undefined
    if (target.includes('/')) return endpointHook(deps, target, config[`${name}_secret`] || config.secret)
    if (deps.noFunctions === undefined) return functionHook({ ...deps, turns }, target)
    return async () => {
      throw new Error(deps.noFunctions)
    }
  }

  /** Undefined where the hook failed and is skipped. `caller`: on whom the call is counted. */
  type Ask = <T>(caller: string, event: object, read: (answer: HookAnswer) => T) => Promise<T | undefined>

  function asking(name: HookName): Ask | undefined {
    const call = callOf(name)
    if (!call) return undefined
    return async (caller, about, read) => {
      // Callers who keep a hook busy do not get past it, even where failures are skipped.
      const release = calls.tryAcquire(caller)
      if (!release) throw serverBusy()
      try {
        const event = { id: randomUUID(), hook: name, time: new Date().toISOString(), ...about }
        return read(await call(event))
      } catch (error) {
        if (isMistake(error)) throw error
        if (error instanceof HookRefusal) {
          throw new AppError('hook_refused', error.said ?? `the ${ACTS[name]} was refused`, { cause: error })
        }
        const isSkipped = config[`${name}_on_error`] === 'skip'
        const reason = databaseMessage(error) ?? reasonOf(error)
        observe({ message: 'auth hook failed', attrs: { hook: name, reason, skipped: isSkipped } })
        if (isSkipped) return undefined
        throw new AppError('hook_failed', `the ${ACTS[name]} cannot be checked now`, { cause: error })
      } finally {
        release()
      }
    }
  }

  const [signUp, signIn, claims, email, sms] = NAMES.map(asking)
  return {
    ...(signUp && {
      beforeSignUp: async ({ method, provider, subject, email: address = '', phone, device }) => {
        const user = { email: address, ...(phone !== undefined && { phone }), is_anonymous: method === 'anonymous' }
        const from = provider === undefined ? {} : { provider, subject }
        const caller = device?.ip ?? JSON.stringify([provider, subject])
        return (await signUp(caller, { method, ...from, user, ...deviceFacts(device) }, accountDataOf)) ?? {}
      },
    }),
    ...(signIn && {
      beforeSignIn: async (user, session, device) => {
        await signIn(user.id, { user, session: sessionFacts(session), ...deviceFacts(device) }, requireNothing)
      },
    }),
    ...(claims && {
      tokenClaims: async (user, session) =>
        (await claims(user.id, { user, session: sessionFacts(session) }, addedClaims)) ?? {},
    }),
    ...(email && { sendEmail: (mail) => sent(email(`mail ${mail.to}`, { mail }, isSent)) }),
    ...(sms && { sendSms: (message) => sent(sms(`sms ${message.to}`, { sms: message }, isSent)) }),
  }
}

const isSent = (answer: HookAnswer): true => {
  requireNothing(answer)
  return true
}

/** A message that the hook refuses is not tried again; after a failure it is. */
async function sent(asked: Promise<true | undefined>): Promise<boolean> {
  try {
    return (await asked) === true
  } catch (error) {
    if (error instanceof AppError && error.errorCode === 'hook_refused') throw new GiveUp(error.message)
    throw error
  }
}

const deviceFacts = (device: Device | undefined): object =>
  device ? { ip: device.ip, user_agent: device.userAgent } : {}

const sessionFacts = ({ sessionId: id, aal, amr, org }: SessionFacts): object => ({ id, aal, amr, ...(org && { org }) })
