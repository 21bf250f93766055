import type { DocumentNode, GraphQLObjectType } from 'graphql'
import { LRUCache } from 'lru-cache'
import { AppError, badRequest, hasStatus } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import { TimeSlice } from '../../core/time-slice.ts'
import type { Appender } from '../../db/changes/append.ts'
import type { ChangeLog } from '../../db/changes/log.ts'
import type { Db, Relayed } from '../../db/db.ts'
import { failedStatement, isMissingOperator, isOutdated } from '../../db/pg-errors.ts'
import type { Cursors } from '../../db/rows/cursors.ts'
import type { LiveQuery } from '../../db/rows/live-query.ts'
import { TimeBudget } from '../../db/rows/time-budget.ts'
import { findOrRefresh } from '../../db/schema/lookup.ts'
import type { Schema, SchemaCache, Table } from '../../db/schema/snapshot.ts'
import { type Viewer, viewerOf } from '../../db/schema/viewer.ts'
import type { Candidates } from '../../db/search/candidates.ts'
import type { Sql } from '../../db/sql.ts'
import { causesOf, stackOf } from '../../http/wire/error-response.ts'
import { CursorMarks } from './cursor-marks.ts'
import {
  chooseOperation,
  Documents,
  isIntrospection,
  type Limits,
  measureCost,
  readVariables,
  requireWithinLimits,
} from './document/document.ts'
import { asRefusal, InvalidDocument } from './document/refusal.ts'
import { validationErrors } from './document/validation.ts'
import { coerceVariables } from './document/variables.ts'
import { Introspection } from './introspection.ts'
import { compileMutation, notPermitted, refusedMutation } from './mutation.ts'
import { type NamedTable, Names } from './names.ts'
import { type Compilation, compileRows, type Failure, failureOf } from './query.ts'
import type { Caller, GraphqlRequest, GraphReplicas } from './request.ts'
import type { GraphqlResult } from './response.ts'
import { answered, isOutage, refused, requireFewAtRoot, responseKey, runsUserCode } from './result.ts'
import { meaningOf, type SelectedField, selectionOf } from './selection.ts'
import { fieldOf, type Prepared, planSubscription } from './subscription.ts'
import { TypeSystem } from './type-system.ts'
import { Conditions } from './where.ts'

export type EngineDeps = {
  db: Db
  /** Undefined: there are none. */
  replicas?: GraphReplicas | undefined
  schema: SchemaCache
  limits: Limits
  candidates: Candidates
  cursors: Cursors
  mayIntrospect: (who: Identity) => boolean
  /** Throws unless the caller may write at all. */
  requireWriter: (who: Identity) => void
  log: Pick<ChangeLog, 'appender'>
  /** Milliseconds that a request may take in the database. */
  timeoutMs: number
  observe: Observe
}

/** Columns and relations of the kept type systems: callers choose which tables a document names, and each takes about 2 kB. */
const KEPT_FIELDS = 10_000
const MAX_ERRORS = 10

/** Executes documents. Each root field is compiled to one statement, and all of them are one flight. */
export class GraphEngine {
  readonly #deps: EngineDeps
  readonly #documents = new Documents()
  readonly #names = new WeakMap<Schema, Map<string, Names>>()
  readonly #systems = new LRUCache<string, TypeSystem>({ maxSize: KEPT_FIELDS })
  readonly #numbers = new WeakMap<Names, number>()
  readonly #introspection = new Introspection()
  #lastNumber = 0

  constructor(deps: EngineDeps) {
    this.#deps = deps
  }

  /** `db`: where mutations are flown. */
  async answer(caller: Caller, request: GraphqlRequest, db: Pick<Db, 'fly'> = this.#deps.db): Promise<GraphqlResult> {
    const log = this.#deps.log.appender(caller.who, caller.requestId)
    let unknown: GraphqlResult | undefined
    const known = await findOrRefresh(this.#deps.schema, async (schema) => {
      const { outcome, isUnknown } = await this.#attempt(caller, request, { log, db }, schema)
      unknown = outcome
      return isUnknown ? undefined : outcome
    })
    return known ?? (unknown as GraphqlResult)
  }

  async #attempt(
    caller: Caller,
    request: GraphqlRequest,
    { log, db }: { log: Appender; db: Pick<Db, 'fly'> },
    schema: Schema,
  ): Promise<{ outcome: GraphqlResult; isUnknown: boolean }> {
    try {
      const prepared = await this.#prepare(caller.who, request, log, schema)
      // A large document does not trigger a reload of the schema and a second validation.
      if ('refusals' in prepared) return { outcome: refused(prepared.refusals), isUnknown: !prepared.isLarge }
      const { c, system, document } = prepared
      return { outcome: await this.#run(caller, c, system, document, db), isUnknown: false }
    } catch (error) {
      const failure = failureOf(error)
      // The schema changed after the snapshot was read.
      if (isOutdated(error)) return { outcome: refused([failure]), isUnknown: true }
      if (failure.extensions.code > 400 && failure.extensions.code !== 404) throw error
      return { outcome: refused([failure]), isUnknown: false }
    }
  }

  /** A subscription as an answer that is kept true; undefined for a query or mutation. */
  live(request: GraphqlRequest): (LiveQuery & { readonly field: string }) | undefined {
    const operation = chooseOperation(this.#documents.read(request.query).document, request.operationName)
    if (operation.node.operation !== 'subscription') return undefined
    requireWithinLimits(measureCost(operation, new Map()), this.#deps.limits)
    return {
      key: JSON.stringify(['graphql', request]),
      field: fieldOf(operation, request.variables),
      plan: async (who) => {
        let refusals: readonly Failure[] = []
        const plan = await findOrRefresh(this.#deps.schema, async (schema) => {
          const prepared = await this.#prepare(who, request, this.#deps.log.appender(who, ''), schema)
          if (!('refusals' in prepared)) return planSubscription(prepared)
          refusals = prepared.refusals
          return undefined
        }).catch((error: unknown) => {
          throw asRefusal(error)
        })
        if (!plan) throw new InvalidDocument(refusals)
        return plan
      },
    }
  }

  /** Reads and checks a document and its variables, for the tables that exist for this caller. */
  async #prepare(
    who: Identity,
    request: GraphqlRequest,
    log: Appender,
    schema: Schema,
  ): Promise<Prepared | { refusals: readonly Failure[]; isLarge: boolean }> {
    const viewer = viewerOf(who)
    const slice = new TimeSlice()
    const { document, names: words, isLarge, validIn } = this.#documents.read(request.query)
    const mayIntrospect = this.#deps.mayIntrospect(who)
    if (!mayIntrospect && (words.has('__schema') || words.has('__type'))) {
      throw new AppError('forbidden', 'introspection is not allowed')
    }
    const operation = chooseOperation(document, request.operationName)
    const allWords = new Set(words)
    await slice.yieldIfOver()
    const sizes = readVariables(request.variables, allWords)
    requireWithinLimits(measureCost(operation, sizes), this.#deps.limits)
    requireFewAtRoot(operation.node.selectionSet.selections.map(responseKey))
    const names = this.#namesOf(schema, viewer)
    const system = this.#systemFor(names, allWords)
    // Suggestions would reveal names of tables to callers who may not introspect.
    const options = { maxErrors: MAX_ERRORS, hideSuggestions: !mayIntrospect }
    if (!validIn.has(system)) {
      await slice.yieldIfOver()
      const refusals = validationErrors(system.schema, document, options)
      const refused = refusals.length > 0 ? refusedMutation(operation, names) : undefined
      if (refused !== undefined) return { refusals: [failureOf(notPermitted(), refused)], isLarge }
      if (refusals.length > 0) return { refusals: refusals.map((error) => failureOf(error)), isLarge }
      validIn.add(system)
    }
    await slice.yieldIfOver()
    const variables = coerceVariables(system, operation.node, request.variables, !mayIntrospect)
    const { candidates, cursors } = this.#deps
    const marks = new CursorMarks(cursors)
    const conditions = new Conditions()
    const time = new TimeBudget(this.#deps.timeoutMs)
    const tables = new Set<Table>()
    const shared = { candidates, cursors, marks, conditions, log, time, tables }
    return { c: { schema, names, viewer, operation, variables, ...shared }, system, document }
  }

  #namesOf(schema: Schema, { role }: Viewer): Names {
    const roles = this.#names.get(schema) ?? new Map<string, Names>()
    this.#names.set(schema, roles)
    const names = roles.get(role) ?? new Names(schema, role)
    roles.set(role, names)
    return names
  }

  /** The type system of the tables that a document with these words can use. */
  #systemFor(names: Names, words: ReadonlySet<string>): TypeSystem {
    const tables = new Set<NamedTable>()
    const add = (table: NamedTable | undefined): void => {
      if (!table || tables.has(table)) return
      tables.add(table)
      for (const [relation, { target }] of table.relations) if (words.has(relation)) add(names.of(target))
    }
    for (const word of words) {
      add(names.field(word))
      add(names.field(word.replace(/^(insert|update|delete)_/, '')))
    }
    const number = this.#numbers.get(names) ?? ++this.#lastNumber
    this.#numbers.set(names, number)
    const key = `${number} ${[...tables]
      .map(({ field }) => field)
      .sort()
      .join(' ')}`
    const known = this.#systems.get(key)
    if (known) return known
    const made = new TypeSystem(names, tables)
    this.#systems.set(key, made, {
      size: [...tables].reduce((sum, { columns, relations }) => sum + columns.size + relations.size, 1),
    })
    return made
  }

  async #run(
    caller: Caller,
    compilation: Compilation,
    system: TypeSystem,
    document: DocumentNode,
    db: Pick<Db, 'fly'>,
  ): Promise<GraphqlResult> {
    const { operation, variables } = compilation
    if (operation.node.operation === 'subscription')
      throw badRequest('subscriptions need a WebSocket', 'invalid_document')
    const isMutation = operation.node.operation === 'mutation'
    const root = (isMutation ? system.schema.getMutationType() : system.schema.getQueryType()) as GraphQLObjectType
    const selected = selectionOf([operation.node.selectionSet], root, operation, variables)
    requireFewAtRoot(selected.map(({ key }) => key))
    if (isMutation) return this.#mutate(caller, selected, root, compilation, db)
    const data = new Map<string, Relayed>()
    for (const { key, field } of selected) if (!field) data.set(key, JSON.stringify(root.name))
    const introspected = selected.filter(({ node }) => isIntrospection(node))
    if (introspected.length > 0) {
      const texts = await this.#introspection.answer(
        compilation,
        document,
        introspected,
        () => !caller.cancelSignal.aborted,
      )
      for (const [key, text] of texts) data.set(key, text)
    }
    const failures = await this.#query(caller, selected, compilation, data, system)
    return answered(selected, data, failures, false)
  }

  /** All fields in one flight. If one fails, each is flown alone in the time that is left, so that the others are answered. */
  async #query(
    caller: Caller,
    selected: readonly SelectedField[],
    compilation: Compilation,
    data: Map<string, Relayed>,
    system: TypeSystem,
  ): Promise<Failure[]> {
    const { who, cancelSignal: signal } = caller
    const failures: Failure[] = []
    const statements: { key: string; statement: Sql }[] = []
    for (const field of selected) {
      const meaning = field.field && meaningOf(field.field)
      if (meaning?.kind !== 'rows') continue
      try {
        statements.push({ key: field.key, statement: compileRows(field, meaning.of, compilation) })
      } catch (error) {
        // What is counted over all fields refuses all of them.
        if (error instanceof AppError && error.errorCode === 'query_too_complex') throw error
        failures.push(this.#failure(caller, error, field.key))
      }
    }
    const [first, ...rest] = statements.map(({ statement }) => statement)
    if (!first) return failures
    const slice = new TimeSlice()
    const { db, replicas } = this.#deps
    const source = replicas ? replicas.from(who, caller.headers?.['svc-position'], compilation.schema, system.oids) : db
    const fly = async (list: readonly [Sql, ...Sql[]]): Promise<Relayed[]> => {
      const options = { kind: 'slow', plain: true, signal, timeoutMs: compilation.time.left, as: 'bytes' } as const
      const lists = await source.fly(who, list, options)
      const sealed: Relayed[] = []
      for (const rows of lists) sealed.push(await compilation.marks.seal(rows ?? '[]', slice))
      return sealed
    }
    try {
      const texts = await fly([first, ...rest])
      for (const [i, { key }] of statements.entries()) data.set(key, texts[i] ?? '[]')
    } catch (error) {
      if (isOutage(error) || isOutdated(error)) throw error
      if (hasStatus(error, 504)) return [...failures, ...statements.map(({ key }) => this.#failure(caller, error, key))]
      if (statements.length === 1) return [...failures, this.#failure(caller, error, statements[0]?.key)]
      for (const { key, statement } of statements) {
        try {
          data.set(key, (await fly([statement]))[0] ?? '[]')
        } catch (alone) {
          failures.push(this.#failure(caller, alone, key))
        }
      }
    }
    return failures
  }

  /** All fields or none, in the order of the document. */
  async #mutate(
    caller: Caller,
    selected: readonly SelectedField[],
    root: GraphQLObjectType,
    compilation: Compilation,
    db: Pick<Db, 'fly'>,
  ): Promise<GraphqlResult> {
    const { who, cancelSignal: signal } = caller
    const data = new Map<string, string>()
    const keys: string[] = []
    const statements: Sql[] = []
    let at = selected[0]?.key ?? ''
    try {
      this.#deps.requireWriter(who)
      for (const field of selected) {
        at = field.key
        if (!field.field) data.set(at, JSON.stringify(root.name))
        else {
          keys.push(at)
          statements.push(compileMutation(field, compilation))
        }
      }
      const [first, ...rest] = statements
      if (!first) return answered(selected, data, [], false)
      const plain = !selected.some(runsUserCode)
      const options = { kind: 'slow', plain, signal, timeoutMs: compilation.time.left } as const
      const texts = await db.fly(who, [first, ...rest], options).catch((error) => {
        at = keys[failedStatement(error) ?? 0] ?? at
        throw error
      })
      for (const [i, key] of keys.entries()) data.set(key, texts[i] ?? 'null')
      return answered(selected, data, [], true)
    } catch (error) {
      if (isOutage(error) || isOutdated(error)) throw error
      return refused([this.#failure(caller, error, at)])
    }
  }

  /** The entry of a root field that failed. Failures of the server are logged, as those of other routes are. */
  #failure({ requestId }: Caller, error: unknown, key: string | undefined): Failure {
    if (isMissingOperator(error)) {
      return failureOf(badRequest('operator is not supported by the column type', 'invalid_filter'), key)
    }
    const failure = failureOf(error, key)
    const { code: status } = failure.extensions
    if (status === 500) {
      const attrs = { requestId, route: '/api/graphql', status, error: causesOf(error), stack: stackOf(error) }
      this.#deps.observe({ message: 'request failed', attrs })
    }
    return failure
  }
}
