import type { IncomingHttpHeaders } from 'node:http'
import type { AuditEntry } from '../core/audit-entry.ts'
import { AppError, badRequest, hasStatus, notFound } from '../core/errors.ts'
import { type Identity, impersonationOf, writeRefusal } from '../core/identity.ts'
import type { Observe } from '../core/observe.ts'
import { measure, Timing } from '../core/timing.ts'
import { TracedTiming, type Tracer } from '../core/trace.ts'
import { checkDryRun } from './dry-run.ts'
import { type Exchange, HttpCall } from './exchange.ts'
import { type AnonymousAccess, admit, authDisabled, type Identify, identifyCaller, needsUser } from './guard.ts'
import { type Limiter, limitFor, pushLimitHeaders, type RateLimit, tooMany } from './rate-limit.ts'
import type { Call, Reply, Route } from './route.ts'
import { createRouter, type Match } from './router.ts'
import { requireHandshake } from './upgrade.ts'
import { announcesBody, parseForm, parseJson, receiveBody, refuseEncoding, requireType } from './wire/body.ts'
import { addressSubject } from './wire/client-address.ts'
import { causesOf } from './wire/error-response.ts'
import type { IncomingBodies } from './wire/incoming-bodies.ts'
import { hasDotSegment } from './wire/target.ts'

export type Audit = (entry: AuditEntry) => Promise<void>

/** Runs the handler of a request with an Idempotency-Key, or answers what it answered before. */
export type RunOnce = (route: Route, call: HttpCall) => Promise<Reply>

export type PipelineDeps = {
  routes: readonly Route[]
  identify: Identify
  limiter: Limiter
  audit: Audit
  /** Undefined: no request has an Idempotency-Key. */
  runOnce?: RunOnce | undefined
  /** `Svc-Position` of an answer to a write of this caller. Undefined: there are no replicas. */
  wrote?: ((who: Identity) => string | undefined) | undefined
  /** Undefined: no telemetry is configured. */
  tracer?: Tracer | undefined
  observe: Observe
  authEnabled: boolean
  bodyLimit: number
  incomingBodies: IncomingBodies
  rateLimits: Readonly<Record<string, RateLimit | null>>
  anonymousAccess: AnonymousAccess
  /** Whether `server.cors_origins` allows this origin. */
  allowsOrigin: (origin: string) => boolean
  /** The rate limit of an app; null = none. */
  appLimit?: ((appId: string) => RateLimit | null | Promise<RateLimit | null>) | undefined
  /** Whether a dashboard that is locked may write for now, by the id of its token. */
  isUnlocked?: ((tokenId: string) => Promise<boolean>) | undefined
  /** Writes the entry before the effect, and its outcome afterwards. */
  auditEffect?: AuditEffect | undefined
  sites?: HostedSites
}

export type AuditEffect = (entry: AuditEntry, effect: () => Promise<Reply>) => Promise<Reply>

/** Serves requests to the host names of hosted sites. */
export type HostedSites = {
  /** Undefined for the server's own names. Called on every request, so it must be cheap. */
  slugOf(host: string): string | undefined
  /** Handles GET and HEAD of all paths for which `isOwnPath` is false. */
  serve(slug: string, path: string, call: Call): Promise<Reply>
}

/** Paths of the server itself, on every host name. */
export const isOwnPath = (path: string): boolean => path.startsWith('/api/') || path === '/api' || path === '/health'

/** Handles a request from its headers to its reply. Cheap checks come first, so that a refusal costs little. */
export function createPipeline(deps: PipelineDeps) {
  const router = createRouter(deps.routes)
  const pages = new Set(deps.routes.filter(isPage))
  for (const { limit, path } of deps.routes) {
    if (limit !== undefined && deps.rateLimits[limit] === undefined) {
      throw new Error(`route ${path} names an unknown rate limit: ${limit}`)
    }
  }

  return (exchange: Exchange): Reply | Promise<Reply> => {
    const { request, target, site } = exchange
    if (site !== undefined && deps.sites) return hosted(deps.sites, site, exchange)
    const match = router.find(request.method ?? '', target.path)
    if (match.kind !== 'unknown') exchange.pattern = match.route.path
    if (request.method === 'OPTIONS') return options(match, request.headers)
    if (match.kind === 'wrong method') {
      match.route.requires?.()
      if (match.missing !== undefined) throw badRequest(`missing ${match.missing}`)
      throw new AppError('method_not_allowed', 'method not allowed', { headers: { Allow: match.allow } })
    }
    if (match.kind === 'unknown' || match.raw.some(hasDotSegment)) throw notFound('not found')
    const { route } = match
    exchange.route = route
    const call = new HttpCall(exchange, match.names, match.raw)
    if (!isUnguarded(route)) return guarded(deps, exchange, route, call)
    // The scripts of a site have its host's origin, which no page of ours may share.
    if (pages.has(route) && deps.sites?.slugOf(request.headers.host ?? '') !== undefined) throw notFound('not found')
    route.requires?.()
    route.check(call)
    return route.run(call)
  }
}

function hosted(sites: HostedSites, slug: string, exchange: Exchange): Promise<Reply> {
  const { method } = exchange.request
  if (method !== 'GET' && method !== 'HEAD') {
    throw new AppError('method_not_allowed', 'method not allowed', { headers: { Allow: 'GET, HEAD' } })
  }
  exchange.pattern = 'hosted site'
  return sites.serve(slug, exchange.target.path, new HttpCall(exchange, [], []))
}

/** Answers preflights for every path, because a browser hides a 404 from its page unless CORS allows it. */
function options(match: Match, headers: IncomingHttpHeaders): Reply {
  if (match.kind === 'wrong method')
    return { status: 204, headers: { Allow: match.allow, ...match.route.optionsHeaders } }
  if (headers['access-control-request-method'] === undefined) throw notFound('not found')
  return { status: 204 }
}

/** A document for people. */
const isPage = ({ contract }: Route): boolean => {
  const answer = contract.answers[200]
  return answer !== null && answer !== undefined && 'content' in answer && answer.content === 'text/html'
}

/** Routes such as /health skip the guard, because there is nothing to check. */
const isUnguarded = (route: Route): boolean =>
  route.auth === 'none' && route.bodyKind === 'none' && route.limit === undefined && route.audit === undefined

async function guarded(deps: PipelineDeps, exchange: Exchange, route: Route, call: HttpCall): Promise<Reply> {
  if (!deps.authEnabled && needsUser(route.auth)) throw authDisabled()
  if (route.upgrade) admitHandshake(deps, exchange, route)
  const inQuery = route.tokenInQuery === undefined ? undefined : tokenInQuery(route, call)
  const { authorization } = exchange.request.headers
  if (route.auth === 'lenient' || route.auth === 'anonymous-user')
    await identifyLeniently(exchange, route.auth, authorization, deps.identify)
  else if (route.identify) exchange.who = await route.identify(call)
  else {
    const who = identifyCaller(route.auth, authorization, inQuery, deps.identify)
    exchange.who = who instanceof Promise ? await who : who
  }
  const timing = timingFor(exchange, route, deps.tracer)
  timing?.mark('identify')
  // Before the guard, because every response to an app's key carries its limit headers.
  if (exchange.who.kind === 'key' && exchange.who.impersonation === undefined)
    await spendAppToken(deps, exchange, exchange.who.grant.appId)
  admit(route, exchange.who, deps.anonymousAccess)
  if (exchange.who.kind === 'admin' && exchange.who.isLockable) await holdLocked(deps, exchange, route, exchange.who)
  const dryRun = exchange.request.headers['dry-run']
  if (dryRun !== undefined) checkDryRun(route, String(dryRun))
  // What is switched off costs a caller nothing of a limit, and says so whatever else is wrong.
  route.requires?.()
  if (route.limit !== undefined) await spendToken(deps, exchange, route.limit)
  timing?.mark('guard')
  route.check(call)
  if (route.bodyKind !== 'none') await receiveAndParse(deps, exchange, route, call)
  timing?.mark('body')
  // A dry run keeps no answer, and an impersonation shares none, so their keys mean nothing.
  const isKeyed =
    route.once !== undefined &&
    dryRun === undefined &&
    hasIdempotencyKey(exchange) &&
    impersonationOf(exchange.who) === undefined
  const isActingAs = impersonationOf(exchange.who)?.write === true && (route.access === 'write' || route.readsToo)
  const run = (isKeyed && deps.runOnce) || (isActingAs ? runAs(deps) : runPlainly)
  const reply = await (timing ? measure(timing, () => run(route, call)) : run(route, call))
  timing?.mark('handler')
  if (deps.wrote !== undefined && isWrite(exchange, route)) pushPosition(exchange, deps.wrote(exchange.who))
  if (route.audit !== undefined && !call.isAudited && reply.status < 400) {
    await writeAudit(deps, withTarget(call.audit(reply.audit), reply))
  }
  return reply
}

const isWrite = ({ method }: Exchange, route: Route): boolean =>
  method !== 'GET' && method !== 'HEAD' && route.access !== 'read'

function pushPosition(exchange: Exchange, position: string | undefined): void {
  if (position !== undefined) exchange.own.push('Svc-Position', position)
}
const tokenInQuery = ({ tokenInQuery }: Route, { query }: HttpCall): string | undefined =>
  tokenInQuery === true || query['live'] === 'true' ? query['token'] || undefined : undefined

const hasIdempotencyKey = ({ request }: Exchange): boolean => request.headers['idempotency-key'] !== undefined

/** Whatever an administrator does as another caller is written down, also where the table is not audited. */
const runAs =
  ({ auditEffect }: PipelineDeps): RunOnce =>
  async (route, call) => {
    const entry = call.audit({ target: `${route.method} ${call.target.split('?')[0]}` })
    const run = async (): Promise<Reply> => route.run(call)
    return auditEffect ? auditEffect({ ...entry, action: 'impersonation.request' }, run) : run()
  }

/** A locked dashboard reads, and what may read as well as write is held to reading by the database. */
async function holdLocked(
  { isUnlocked }: PipelineDeps,
  exchange: Exchange,
  { method, readsToo }: Route,
  who: Extract<Identity, { kind: 'admin' }>,
): Promise<void> {
  if (method === 'GET' || (await isUnlocked?.(who.tokenId))) return
  exchange.who = { ...who, isLocked: true }
  if (!readsToo) throw writeRefusal(exchange.who)
}

const runPlainly = (route: Route, call: Call): Reply | Promise<Reply> => route.run(call)

/** Only the admin may measure, because times reveal what is in a database. */
function timingFor(exchange: Exchange, route: Route, tracer: Tracer | undefined): Timing | undefined {
  const { headers } = exchange.request
  const isShown = exchange.who.kind === 'admin' && headers['x-timing'] !== undefined
  if (!isShown && tracer === undefined) return undefined
  const timing = tracer === undefined ? new Timing(exchange.startedAt) : traced(exchange, route, tracer)
  if (isShown) exchange.timing = timing
  return timing
}

function traced(exchange: Exchange, route: Route, tracer: Tracer): Timing {
  const { request, requestId, method, startedAt } = exchange
  const traceparent = request.headers['traceparent'] as string | undefined
  exchange.trace = tracer.request({ method, route: route.path, requestId, traceparent })
  return new TracedTiming(startedAt, exchange.trace)
}

/** Checks the origin, because browsers send no preflight before a WebSocket. The server's own pages are allowed. */
function admitHandshake({ allowsOrigin }: PipelineDeps, { request, upgradeHead }: Exchange, route: Route): void {
  if (upgradeHead === undefined) route.otherwise?.()
  requireHandshake(request, upgradeHead !== undefined)
  const { origin, host } = request.headers
  if (origin === undefined || allowsOrigin(origin) || origin.replace(/^https?:\/\//, '') === host) return
  throw new AppError('origin_not_allowed', 'origin not allowed')
}

async function identifyLeniently(
  exchange: Exchange,
  auth: 'lenient' | 'anonymous-user',
  authorization: string | undefined,
  identify: Identify,
) {
  try {
    const who = await identifyCaller(auth, authorization, undefined, identify)
    if (auth === 'lenient' || (who.kind === 'user' && who.isAnonymous && !who.impersonation)) exchange.who = who
  } catch (error) {
    // 403: a good token that opens no data.
    if (auth === 'anonymous-user' && hasStatus(error, 403)) return
    if (!hasStatus(error, 401)) throw error
    exchange.badBearer = error
  }
}

/** A failure is only logged: the change is committed, and an error would make the client repeat it. */
async function writeAudit({ audit, observe }: PipelineDeps, entry: AuditEntry): Promise<void> {
  try {
    await audit(entry)
  } catch (error) {
    const { action, target, ip, requestId } = entry
    observe({
      message: 'audit entry lost',
      attrs: { action, target, ip, requestId, error: causesOf(error) },
    })
  }
}

async function spendToken(deps: PipelineDeps, exchange: Exchange, limit: string): Promise<void> {
  const applied = limitFor(limit, deps.rateLimits, exchange.who, exchange.ip)
  if (applied === undefined) return
  const allowance = await deps.limiter.takeToken(applied.name, applied.subject, applied.rate)
  pushLimitHeaders(exchange.own, allowance, 'X-RateLimit')
  if (!allowance.allowed) throw tooMany(allowance)
}

async function spendAppToken(deps: PipelineDeps, exchange: Exchange, appId: string | null): Promise<void> {
  if (appId === null || deps.appLimit === undefined) return
  const rate = await deps.appLimit(appId)
  if (rate === null) return
  const allowance = await deps.limiter.takeToken('app', appId, rate)
  pushLimitHeaders(exchange.own, allowance, 'X-App-RateLimit')
  if (!allowance.allowed) throw tooMany(allowance, 'app rate limit exceeded', 'app_rate_limited')
}

function requireTypeOf(route: Route, headers: IncomingHttpHeaders, type: string): void {
  try {
    requireType(headers, type)
  } catch (error) {
    throw route.wrongType?.() ?? error
  }
}

async function receiveAndParse(deps: PipelineDeps, exchange: Exchange, route: Route, call: HttpCall): Promise<void> {
  const { request } = exchange
  if (!announcesBody(request.headers)) return
  refuseEncoding(request.headers)
  if (route.bodyKind === 'raw') return exchange.continueWhenRead()
  const type = route.bodyKind === 'form' ? 'application/x-www-form-urlencoded' : 'application/json'
  // An empty body may have any type, and whether a chunked body is empty is known only after reading it.
  if (request.headers['content-length'] !== undefined) requireTypeOf(route, request.headers, type)
  const limit = route.bodyLimit ?? deps.bodyLimit
  if (Number(request.headers['content-length'] ?? 0) <= limit) exchange.continue()
  const bytes = await receiveBody(request, limit, deps.incomingBodies, addressSubject(exchange.ip))
  if (bytes.length === 0) return
  requireTypeOf(route, request.headers, type)
  if (route.bodyKind === 'form') {
    const form = parseForm(bytes)
    call.body = form.values
    call.bodyText = form.text
    call.repeated = new Set([...call.repeated, ...form.repeated])
    return
  }
  const { text, value } = parseJson(bytes)
  call.body = value
  call.bodyText = text
}

const withTarget = (entry: AuditEntry, { body }: Reply): AuditEntry =>
  entry.target === '' ? { ...entry, target: idOf(body) } : entry

const idOf = (body: unknown): string => {
  if (typeof body !== 'object' || body === null) return ''
  const id = (body as Readonly<Record<string, unknown>>)['id']
  return typeof id === 'string' ? id : ''
}
