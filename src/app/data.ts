import type { Config } from '../config/config.ts'
import { watchTables } from '../db/changes/watch.ts'
import type { TriesWrites } from '../db/history/dry-run.ts'
import type { UndoRequest } from '../db/history/undo.ts'
import type { Pool } from '../db/pool/pool.ts'
import { Cursors } from '../db/rows/cursors.ts'
import { findTextSearchConfig } from '../db/search/text-search-config.ts'
import { Trigrams } from '../db/search/trigrams.ts'
import { createBulk } from '../features/collections/bulk/routes.ts'
import { createLiveLists } from '../features/collections/live-lists.ts'
import { createCollections } from '../features/collections/routes.ts'
import { createGraphql } from '../features/graphql/routes.ts'
import { createHistory } from '../features/history/routes.ts'
import { createIdempotency } from '../features/idempotency/run-once.ts'
import { createMatviews } from '../features/matviews/routes.ts'
import type { OpenLiveStream } from '../features/realtime/live-stream.ts'
import { createRls } from '../features/rls/routes.ts'
import { createRpc } from '../features/rpc/routes.ts'
import { createSchemaFeature } from '../features/schema/routes.ts'
import { createSearch } from '../features/search/routes.ts'
import { createVector } from '../features/vector/routes.ts'
import type { Feature } from '../http/feature.ts'
import { isLoopbackHost } from '../http/out/address-guard.ts'
import type { Route } from '../http/route.ts'
import type { IdentityGroup } from './identity.ts'
import type { Platform } from './platform.ts'

/** What of the features that react to the change log these need; they are created later. */
type OfEvents = { liveStream: OpenLiveStream }

/** Features for the user's tables and functions. */
export async function createData(
  config: Config,
  platform: Platform,
  { keyFor, identify }: IdentityGroup,
  { liveStream }: OfEvents,
) {
  const { db, replicas, schema, changeLog, dryRuns, asOf, queue, candidates, gateways, observe } = platform
  const textSearchConfig = await findTextSearchConfig(db, config.api.text_search_config)
  const trigrams = new Trigrams({ db, schema })
  const cursors = new Cursors(keyFor('cursors'))
  await watchTables({ db, schema, observe }, config.realtime.watch)
  const vector = createVector({ db, schema, log: changeLog, queue, outgoing: gateways, config: config.ai, observe })
  const idempotency = createIdempotency({
    db,
    observe,
    limits: { retention: config.api.idempotency_retention, size: config.api.idempotency_size },
    waitMs: config.api.statement_timeout * 1000,
  })
  const listDeps = { candidates, textSearchConfig }
  const timeoutMs = config.api.statement_timeout * 1000
  const liveList = createLiveLists({ schema, listDeps })
  const history = {
    schema,
    config: config.history,
    undo: (request: UndoRequest) => platform.undo(request),
    wake: () => changeLog.wake(),
  }
  /** The routes of rows and functions on other connections, for agents. */
  const routesOn = (other: Pool, tries: TriesWrites): readonly Route[] => {
    const shared = { db: other, schema, log: changeLog, dryRuns: tries }
    const rows = createCollections({
      ...shared,
      asOf,
      cursors,
      listDeps,
      liveList,
      liveStream,
      trigrams,
      embed: vector.embed,
      timeoutMs,
    })
    const parts: readonly Feature[] = [rows, createRpc(shared), createHistory({ ...history, db: other })]
    return parts.flatMap((feature) => feature.routes ?? [])
  }
  const graphql = createGraphql({
    db,
    schema,
    log: changeLog,
    dryRuns,
    candidates,
    cursors,
    config: config.graphql,
    isLocal: isLoopbackHost(config.server.host),
    anonymousMayWrite: config.api.anonymous === 'all',
    timeoutMs,
    observe,
    replicas: replicas && {
      from: (who, position, of, oids) => replicas.from({ who, position, schema: of, oids }),
      wrote: (who) => replicas.wrote(who),
    },
  })
  return {
    liveList,
    graphqlRequests: graphql.requests,
    routesOn,
    features: [
      createSchemaFeature({ schema, db }),
      createCollections({
        db,
        schema,
        log: changeLog,
        dryRuns,
        asOf,
        cursors,
        listDeps,
        trigrams,
        embed: vector.embed,
        timeoutMs,
        from:
          replicas &&
          (({ who, query, headers }, { schema: of, table }) => {
            // Rows of other tables come with them.
            const oids = query['expand'] === undefined ? [table.oid] : undefined
            return replicas.from({ who, position: headers['svc-position'], schema: of, oids })
          }),
        liveList,
        liveStream,
      }),
      createBulk({
        db,
        schema,
        log: changeLog,
        dryRuns,
        listDeps,
        trigrams,
        identify,
        maxRows: config.api.export_max_rows,
        maxBytes: config.api.import_max_size,
      }),
      createSearch({ db, schema, textSearchConfig, needTrigrams: () => trigrams.ensureInstalled() }),
      createRpc({ db, schema, log: changeLog, dryRuns }),
      graphql,
      createHistory({ ...history, db }),
      createMatviews({ db, observe }),
      vector,
      createRls({ db, schema, schemas: config.api.schemas }),
      idempotency,
    ],
    runOnce: idempotency.runOnce,
  }
}

export type DataGroup = Awaited<ReturnType<typeof createData>>
