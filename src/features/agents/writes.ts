import { randomUUID } from 'node:crypto'
import { AppError, badRequest } from '../../core/errors.ts'
import { type Identity, SYSTEM } from '../../core/identity.ts'
import { Semaphore } from '../../core/limits.ts'
import type { ChangeLog } from '../../db/changes/log.ts'
import type { Db, Tx } from '../../db/db.ts'
import type { DryRun } from '../../db/history/dry-run.ts'
import { findFunctions, findTable } from '../../db/schema/lookup.ts'
import type { Schema, SchemaCache } from '../../db/schema/snapshot.ts'
import { viewerOf } from '../../db/schema/viewer.ts'
import type { Sql } from '../../db/sql.ts'
import { type Agent, MOST_ROWS } from './agent.ts'
import { type Confirmations, notConfirmed, statementOf } from './confirm.ts'
import type { Difference } from './difference.ts'
import type { ForeignText } from './foreign-text.ts'
import { type GuardDeps, GuardedWrite, type GuardedWrites } from './guarded-write.ts'
import * as q from './sql.ts'
import { ToolCall, type ToolRequest, type ToolRoutes } from './tool-call.ts'
import type { Args, ToolName } from './tools.ts'
import { entryOf } from './trail.ts'
import { comeBack, type Inverse, inversesOf, requireUntouched, undoIn } from './undo.ts'

export type WritesDeps = GuardDeps & {
  /** The server's own connections, for what agents leave behind. */
  own: Db
  schema: SchemaCache
  log: Pick<ChangeLog, 'appender' | 'wake'>
  routes: ToolRoutes
  expected: GuardedWrites
  confirmations: Confirmations
  foreignText: ForeignText
  /** agents.quarantine */
  hasQuarantine: boolean
}

/** How a write is meant: tried or confirmed by the agent, or released by the user's own hand. */
export type Intent = { readonly confirm?: string; readonly released?: { readonly id: string; readonly digest: string } }

export type WriteOutcome =
  | { kind: 'nothing'; answer: unknown }
  | { kind: 'tried'; difference: Difference; others: readonly string[]; confirm: string }
  | { kind: 'done'; difference: Difference; requestId: string; answer: unknown }
  | { kind: 'pending'; difference: Difference; others: readonly string[]; id: string; why: PendingReason }

export type PendingReason = 'release' | 'quarantine' | 'rows'

/** How much may wait for a user: writes of one agent, bytes of one write, bytes of all. */
const [MOST_PENDING, MOST_PENDING_BYTES, MOST_BYTES_OF_USER] = [50, 1024 * 1024, 8 * 1024 * 1024]
/** Each takes a connection of its own. */
const AT_ONCE = 4

export type WriteContext = { agent: Agent; ip: string; signal: AbortSignal }

/** The two-step writes of agents. */
export class Writes {
  readonly #deps: WritesDeps
  readonly #atOnce = new Semaphore(AT_ONCE)

  constructor(deps: WritesDeps) {
    this.#deps = deps
  }

  async run(context: WriteContext, tool: ToolName, args: Args, intent: Intent): Promise<WriteOutcome> {
    const { agent, signal } = context
    const { confirmations, foreignText, schema } = this.#deps
    const requestId = `mcp_${randomUUID()}`
    const statement = statementOf(tool, args)
    const confirmed = intent.confirm === undefined ? undefined : confirmations.check(agent, statement, intent.confirm)
    if (!intent.released) await this.#requireInside(agent, tool, args)
    let stop: Stop | undefined
    let seen: Difference | undefined
    let others: readonly string[] = []
    const inverses = tool === 'undo' ? await this.#inverses(agent, args) : []
    // What an agent undoes it has written or seen.
    const sent =
      statement + JSON.stringify(inverses.map((one) => [one.expects, 'route' in one ? one.request.body : one.image]))
    const functions = overloadsOf(schema.read(), tool, args)
    const decide = async (tx: Tx, difference: Difference, run: DryRun): Promise<boolean> => {
      seen = difference
      if (tool === 'undo') requireUntouched(inverses, run, difference.columns)
      if (!intent.released) others = await foreignText.columnsIn(schema.read(), difference, { sent, functions })
      // What the difference shows of others is read. A confirmed one was seen before.
      if (!confirmed && others.length > 0 && this.#deps.hasQuarantine) {
        await this.#deps.own.run(SYSTEM, q.beginQuarantine(agent.id))
      }
      stop = await this.#judge(tx, { ...context, tool, args, requestId, intent, confirmed, statement }, difference)
      return stop === undefined
    }
    const isCompared = confirmed !== undefined || intent.released !== undefined
    const write = new GuardedWrite(this.#deps, agent.who, { signal, functions, isCompared }, decide)
    const undo = (tx: Tx) => undoIn(tx, inverses, (inverse) => this.#undoOne(context, inverse, tx, requestId))
    const run = () => (tool === 'undo' ? write.run(undo) : this.#callRoute(context, tool, args, requestId, write))
    const answer = await this.#atOnce.run(run, { signal })
    if (!seen) throw new TypeError('a write was made without a look at it')
    if (stop) return this.#stoppedAt(stop, { difference: seen, others }, unwrapped(answer), context, tool, args)
    this.#deps.log.wake()
    return { kind: 'done', difference: seen, requestId, answer: unwrapped(answer) }
  }

  /** After text of others was read, even a try may tell them something, if it reaches outside of the database. */
  async #requireInside({ id }: Agent, tool: ToolName, args: Args): Promise<void> {
    const { own, schema, hasQuarantine } = this.#deps
    if (!hasQuarantine) return
    const functions = overloadsOf(schema.read(), tool, args)
    const table = findTable(schema.read(), String(args['table'] ?? ''))
    if ((await own.fly(SYSTEM, q.leaksOutside(id, functions, table ? [table.oid] : []))) !== 'true') return
    throw new AppError(
      'forbidden',
      'this reaches outside of the database, and you have read text that others wrote: the user has to let you write again first',
    )
  }

  async #stoppedAt(
    stop: Stop,
    { difference, others }: { difference: Difference; others: readonly string[] },
    answer: unknown,
    { agent }: WriteContext,
    tool: ToolName,
    args: Args,
  ): Promise<WriteOutcome> {
    switch (stop.kind) {
      case 'nothing':
        return { kind: 'nothing', answer }
      case 'tried':
        return { kind: 'tried', difference, others, confirm: stop.confirm }
      case 'pending': {
        const { confirm: _confirm, ...kept } = args
        return {
          kind: 'pending',
          difference,
          others,
          id: await this.#keepPending(agent, tool, kept, difference),
          why: stop.why,
        }
      }
    }
  }

  async #keepPending(agent: Agent, tool: ToolName, args: Args, difference: Difference): Promise<string> {
    const [text, counts] = [JSON.stringify(args), JSON.stringify(difference.counts)]
    if (difference.isCut || Buffer.byteLength(text) + Buffer.byteLength(difference.changes) > MOST_PENDING_BYTES) {
      throw new AppError('too_large', 'the write changes more than the user could look at')
    }
    const pending = {
      agentId: agent.id,
      grantId: agent.grantId,
      keyId: agent.who.keyId,
      tool,
      args: text,
      digest: this.#deps.confirmations.digest('pending', difference.text),
      changes: difference.changes,
      counts,
    }
    const [, id] = await this.#deps.own.fly(SYSTEM, q.insertPending(pending, MOST_PENDING, MOST_BYTES_OF_USER))
    if (id === null) throw new AppError('limit_reached', 'too many writes wait for the user already')
    return id
  }

  /** Inside the transaction: undefined lets it commit. */
  async #judge(tx: Tx, of: Judged, difference: Difference): Promise<Stop | undefined> {
    const { agent, intent, confirmed, statement } = of
    const { key, confirmations, hasQuarantine } = this.#deps
    if (intent.released) {
      if (confirmations.digest('pending', difference.text) !== intent.released.digest) {
        throw new AppError('conflict', 'the difference is no longer what it was')
      }
      return this.#commit(tx, of, difference, MOST_ROWS)
    }
    if (difference.rows === 0 && difference.text === EMPTY_DIFFERENCE) return { kind: 'nothing' }
    if (agent.release) return { kind: 'pending', why: 'release' }
    const most = Math.min(agent.auto ?? MOST_ROWS, MOST_ROWS)
    if (confirmed) {
      if (confirmations.digest(confirmed.nonce, difference.text) !== confirmed.digest) {
        throw notConfirmed('the difference is no longer what it was')
      }
      return this.#commit(tx, of, difference, most)
    }
    const state = JSON.parse((await tx.fly(q.agentState(key, agent.id))) ?? 'null') as q.AgentState | null
    if (!state) throw ended()
    if (hasQuarantine && state.isQuarantined) return { kind: 'pending', why: 'quarantine' }
    if (state.rows + difference.rows > most) return { kind: 'pending', why: 'rows' }
    // An undo has two steps in any case.
    const isOneStep = agent.auto !== null && agent.auto > 0 && of.tool !== 'undo'
    if (isOneStep) return this.#commit(tx, of, difference, most)
    return { kind: 'tried', confirm: confirmations.issue(agent, statement, difference.text, state.generation) }
  }

  async #commit(tx: Tx, of: Judged, difference: Difference, most: number): Promise<Stop | undefined> {
    const { agent, intent, confirmed, tool, args, requestId, ip } = of
    const { key, hasQuarantine, schema } = this.#deps
    const functions = overloadsOf(schema.read(), tool, args)
    const isDefiner = (await tx.fly(q.runsDefiner(functions, difference.oids))) === 'true'
    const tables = Object.keys(difference.counts)
    const entry = { ...entryOf({ tool, clientId: agent.clientId, tables, rows: difference.rows, requestId, ip }), ip }
    const commit: q.Commit = {
      key,
      agentId: agent.id,
      requestId,
      rows: Math.min(difference.rows, 1_000_000),
      most,
      isFinal: difference.isUnlogged || difference.isCut || isDefiner,
      heedsQuarantine: hasQuarantine,
      generation: confirmed?.generation ?? null,
      nonce: confirmed?.nonce ?? null,
      pendingId: intent.released?.id ?? null,
      grantId: agent.grantId,
      apiKeyId: agent.apiKeyId,
      entry,
    }
    const verdict = (await tx.fly(q.agentCommit(commit))) as q.CommitVerdict
    switch (verdict) {
      case 'ok':
        return undefined
      case 'quarantined':
        return { kind: 'pending', why: 'quarantine' }
      case 'over':
        return { kind: 'pending', why: 'rows' }
      case 'spent':
        throw intent.released
          ? new AppError('conflict', 'it has been decided already')
          : notConfirmed('confirm has been used')
      case 'ended':
        throw ended()
    }
  }

  #callRoute(
    context: WriteContext,
    tool: ToolName,
    args: Args,
    requestId: string,
    write: GuardedWrite,
  ): Promise<unknown> {
    const { route, request } = requestOf(tool, args)
    return this.#call(context, route, request, requestId, write.tried)
  }

  #call(
    { agent, ip, signal }: WriteContext,
    route: string,
    request: ToolRequest,
    requestId: string,
    tried: GuardedWrite['tried'],
  ) {
    // Each call has a signal of its own, by which the handler is handed its write.
    const cancelSignal = AbortSignal.any([signal])
    this.#deps.expected.expect(cancelSignal, tried)
    return this.#deps.routes.run(route, new ToolCall(request, { who: agent.who, ip, requestId, cancelSignal }))
  }

  #inverses(agent: Agent, args: Args): Promise<Inverse[]> {
    const { own, schema } = this.#deps
    return inversesOf(own, agent, String(args['request_id']), schema.read(), viewerOf(agent.who))
  }

  #undoOne(context: WriteContext, inverse: Inverse, tx: Tx, requestId: string): Promise<unknown> {
    const { who } = context.agent
    if ('route' in inverse) {
      const inside = {
        told: '"changes":[]',
        db: { fly: ((_who: Identity, statements: Sql) => tx.fly(statements)) as Db['fly'] },
      }
      return this.#call(context, inverse.route, inverse.request, requestId, inside)
    }
    const target = { schema: this.#deps.schema.read(), table: inverse.table, viewer: viewerOf(who) }
    return tx.fly(comeBack(target, inverse.image, this.#deps.log.appender(who, requestId)))
  }
}

type Judged = WriteContext & {
  tool: ToolName
  args: Args
  requestId: string
  intent: Intent
  statement: string
  confirmed: { nonce: string; digest: string; generation: string } | undefined
}

/** Any of them may be the one that is called. */
const overloadsOf = (schema: Schema, tool: ToolName, args: Args): number[] =>
  tool === 'call' ? findFunctions(schema, String(args['function'])).map(({ oid }) => oid) : []

const EMPTY_DIFFERENCE = JSON.stringify([[], [], []])

const ended = (): AppError =>
  new AppError('conflict', 'confirm has ended: nothing was done, try the write again without it')

type Stop = { kind: 'nothing' } | { kind: 'tried'; confirm: string } | { kind: 'pending'; why: PendingReason }

/** Answers of handlers that try are wrapped. */
function unwrapped(answer: unknown): unknown {
  return (answer as { dry_run?: { answer?: unknown } } | null | undefined)?.dry_run?.answer ?? null
}

function requestOf(tool: ToolName, args: Args): { route: string; request: ToolRequest } {
  const [table, id] = [String(args['table'] ?? ''), String(args['id'] ?? '')]
  const isWrite = true
  switch (tool) {
    case 'create':
      return { route: 'POST /api/collections/{table}', request: { params: { table }, body: args['body'], isWrite } }
    case 'update':
      return {
        route: 'PATCH /api/collections/{table}/{id}',
        request: { params: { table, id }, body: args['body'], isWrite },
      }
    case 'delete':
      return { route: 'DELETE /api/collections/{table}/{id}', request: { params: { table, id }, isWrite } }
    case 'call': {
      const name = String(args['function'])
      return {
        route: 'POST /api/rpc/{function}',
        request: { params: { function: name }, body: args['args'] ?? {}, isWrite },
      }
    }
    default:
      throw badRequest(`${tool} writes nothing`)
  }
}
