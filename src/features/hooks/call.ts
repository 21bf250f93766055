import { ON_HOOKS, SYSTEM } from '../../core/identity.ts'
import type { Semaphore } from '../../core/limits.ts'
import { version } from '../../core/version.ts'
import type { Db } from '../../db/db.ts'
import { raisedBy } from '../../db/pg-errors.ts'
import { Ident, sql } from '../../db/sql.ts'
import { type Outgoing, OutgoingError } from '../../http/out/outgoing.ts'
import { signatureHeaders } from '../../http/out/webhook-signature.ts'
import { parseJson } from '../../http/wire/body.ts'
import { answerObject, type HookAnswer, messageIn } from './answers.ts'

/** For the call, waiting for a connection included; not for what is made ready once. */
const HOOK_MS = 2_000
const noAnswer = (cause: unknown): Error => new Error(`no answer within ${HOOK_MS} ms`, { cause })
const MAX_ANSWER_BYTES = 65_536

type HookEvent = { readonly id: string; readonly hook: string } & Readonly<Record<string, unknown>>

/** Throws HookRefusal for a refusal; everything else that it throws is a failure. */
export type CallHook = (event: HookEvent) => Promise<HookAnswer>

/** The hook says no, perhaps with a message for the caller. */
export class HookRefusal extends Error {
  readonly said: string | undefined
  constructor(said: string | undefined, cause?: unknown) {
    super('the hook refused', { cause })
    this.said = said
  }
}

/** A POST signed like those of webhooks. Redirects are not followed: they are failures. */
export const endpointHook =
  ({ outgoing }: { outgoing: Outgoing }, url: string, secret: string): CallHook =>
  async (event) => {
    const body = JSON.stringify(event)
    const timestamp = Math.floor(Date.now() / 1000)
    const answered = outgoing.request({
      method: 'POST',
      url,
      headers: {
        'Content-Type': 'application/json',
        'User-Agent': `Savanna/${version}`,
        'X-SVC-Event': event.hook,
        'webhook-id': event.id,
        'webhook-timestamp': String(timestamp),
        ...signatureHeaders(secret, { id: event.id, timestamp, body }),
      },
      body,
      timeoutMs: HOOK_MS,
      maxBytes: MAX_ANSWER_BYTES,
    })
    const { status, truncated, ...answer } = await answered.catch((error: unknown) => {
      throw error instanceof OutgoingError && error.reason === 'timeout' ? noAnswer(error) : error
    })
    if (status >= 400 && status < 500) throw new HookRefusal(truncated ? undefined : messageOf(answer.body))
    if (status < 200 || status > 299) throw new Error(`the hook answered ${status}`)
    if (truncated) throw new Error(`the answer has more than ${MAX_ANSWER_BYTES} bytes`)
    return answerObject(answer.body.trim() === '' ? undefined : parseJson(Buffer.from(answer.body)).value)
  }

/** Whatever is in the body of a refusal, it is one. */
function messageOf(body: string): string | undefined {
  try {
    return messageIn(parseJson(Buffer.from(body)).value)
  } catch {
    return undefined
  }
}

/**
 * A function `f(event jsonb) returns jsonb`, as the role svc_hooks on a connection of callers. The role gets what it needs to
 * call it, and nothing else, when the function is first called.
 */
export function functionHook({ db, turns }: { db: Db; turns: Semaphore }, name: string): CallHook {
  const [schema = '', routine = ''] = name.split('.')
  const [space, called] = [new Ident(schema), new Ident(routine)]
  let isOpen = false

  async function open(): Promise<void> {
    const patience = { timeoutMs: HOOK_MS, lockTimeoutMs: HOOK_MS }
    const signature = `${space.quoted}.${called.quoted}(jsonb)`
    const state = await db.fly(
      SYSTEM,
      sql`select case when p.oid is null then 'missing'
        when p.prorettype <> 'jsonb'::regtype or p.prokind <> 'f' or p.proretset then 'other'
        when has_schema_privilege('svc_hooks', p.pronamespace, 'usage') and has_function_privilege('svc_hooks', p.oid, 'execute')
        then 'open' else 'closed' end
      from (select to_regprocedure(${signature}) as found) f left join pg_proc p on p.oid = f.found`,
      patience,
    )
    if (state === 'missing') throw new Error(`there is no function ${name}(jsonb)`)
    if (state === 'other') throw new Error(`the function ${name}(jsonb) does not return jsonb`)
    if (state === 'closed') {
      const granted = [
        sql`grant usage on schema ${space} to svc_hooks`,
        sql`grant execute on function ${space}.${called}(jsonb) to svc_hooks`,
      ] as const
      await db.run(SYSTEM, granted, patience)
    }
    isOpen = true
  }

  const call = (event: HookEvent, signal: AbortSignal): Promise<string | null> =>
    db.fly(ON_HOOKS, sql`select ${space}.${called}(${JSON.stringify(event)}::jsonb)::text`, {
      timeoutMs: HOOK_MS,
      lockTimeoutMs: HOOK_MS,
      maxBytes: MAX_ANSWER_BYTES,
      signal,
    })

  return async (event) => {
    if (!isOpen) await open()
    const signal = AbortSignal.timeout(HOOK_MS)
    try {
      const answer = await turns.run(() => call(event, signal), { signal })
      return answerObject(answer === null ? undefined : parseJson(Buffer.from(answer)).value)
    } catch (error) {
      const raised = raisedBy(error)
      if (isRaise(raised)) throw new HookRefusal(messageIn(raised?.message), error)
      isOpen = false
      throw signal.aborted ? noAnswer(error) : error
    }
  }
}

/** RAISE of PL/pgSQL, whatever SQLSTATE it names; other errors are failures of the function. */
const isRaise = (error: { code?: string; routine?: string } | undefined): boolean =>
  error !== undefined && (error.code === 'P0001' || error.routine === 'exec_stmt_raise')
