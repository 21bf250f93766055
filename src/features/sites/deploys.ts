import type { AuditSource } from '../../core/audit-entry.ts'
import { AppError, badRequest, found, notFound } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { audited, changeAudited, MADE_RECORD } from '../../db/audit.ts'
import type { Db, Tx } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import { contentTypeOf } from '../../http/files/content-type.ts'
import * as q from './sql.ts'

/** Durable bytes; the transaction that refers to them adds their row. */
export type StoredBytes = { id: string; size: number; sha256: string }

type NewFile = { name: string; contentType: string; blob: StoredBytes }

type Deps = { db: Db; addBlob: (blob: StoredBytes) => Sql; isObjectName: (name: string) => boolean }
type Page = { page: number; perPage: number; offset: number }

const wrongTransition = (verb: string, status: string): AppError =>
  new AppError('wrong_state', `invalid deploy status transition: cannot ${verb} deploy with status "${status}"`)

/** Deploys of sites: uploading → live → superseded → live again, or uploading → failed. */
export class Deploys {
  readonly #deps: Deps

  constructor(deps: Deps) {
    this.#deps = deps
  }

  async page(siteId: string, page: Page): Promise<string> {
    const [row] = await this.#deps.db.rows<{ exists: boolean; body: string }>(SYSTEM, q.deploysPage(siteId, page))
    return requireFound(row?.exists ? row.body : null, 'site')
  }

  async one(siteId: string, id: string): Promise<string> {
    const [row] = await this.#deps.db.rows<{ exists: boolean; deploy: string | null }>(SYSTEM, q.oneDeploy(siteId, id))
    if (!row?.exists) throw notFound('site not found', 'site_not_found')
    return requireFound(row.deploy, 'deploy')
  }

  async create(siteId: string, act: AuditSource): Promise<string> {
    return requireFound(await this.#deps.db.fly(SYSTEM, audited(act.audit(), q.addDeploy(siteId), MADE_RECORD)), 'site')
  }

  promote(siteId: string, id: string, act: AuditSource): Promise<string> {
    return this.#change(act, async (tx) => {
      if ((await tx.run(q.lockSite(siteId))) === 0) throw notFound('site not found', 'site_not_found')
      const status = await this.#statusIn(tx, siteId, id)
      if (status !== 'uploading' && status !== 'superseded') throw wrongTransition('promote', status)
      await tx.run(q.supersedeLive(siteId))
      return requireFound(await tx.fly(q.makeLive(id)), 'deploy')
    })
  }

  rollback(siteId: string, act: AuditSource): Promise<string> {
    return this.#change(act, async (tx) => {
      if ((await tx.run(q.lockSite(siteId))) === 0) throw notFound('site not found', 'site_not_found')
      // Read before the live deploy is superseded, so that a second rollback undoes the first.
      const [previous] = await tx.rows<{ id: string }>(q.lastSuperseded(siteId))
      if (!previous) throw new AppError('wrong_state', 'no superseded deploy to rollback to')
      await tx.run(q.supersedeLive(siteId))
      return requireFound(await tx.fly(q.makeLive(previous.id)), 'deploy')
    })
  }

  fail(siteId: string, id: string, errorMessage: string | undefined, act: AuditSource): Promise<string> {
    return this.#change(act, async (tx) => {
      const status = await this.#statusIn(tx, siteId, id)
      if (status !== 'uploading') throw wrongTransition('fail', status)
      return requireFound(await tx.fly(q.failDeploy(id, errorMessage ?? null)), 'deploy')
    })
  }

  /** Fails the deploy after a file could not be stored, so that no incomplete deploy is promoted. */
  async failUpload(id: string): Promise<void> {
    await this.#deps.db.run(SYSTEM, q.failDeploy(id, 'a file could not be stored'))
  }

  async requireUploading(siteId: string, id: string): Promise<void> {
    const { status } = JSON.parse(await this.one(siteId, id)) as { status: string }
    if (status !== 'uploading') throw closed()
  }

  /** Adds or replaces a file, unless the deploy was promoted during the upload. */
  putFile(
    siteId: string,
    id: string,
    { name, contentType: declaredType, blob }: NewFile,
    act: AuditSource,
  ): Promise<string> {
    const path = this.#path(name)
    return this.#change(act, async (tx) => {
      if ((await this.#statusIn(tx, siteId, id)) !== 'uploading') throw closed()
      await tx.run(this.#deps.addBlob(blob))
      const counted = requireFound(await tx.fly(q.countFile(id, path, blob.size)), 'deploy')
      await tx.run(q.putSiteFile(id, { path, contentType: contentTypeOf(path, declaredType), blobId: blob.id }))
      return counted
    })
  }

  /** JSON text of {missing, deploy}. */
  adopt(
    siteId: string,
    id: string,
    files: readonly { path: string; sha256: string }[],
    act: AuditSource,
  ): Promise<string> {
    const listed = new Map(files.map(({ path, sha256 }) => [this.#path(path), sha256]))
    const entries = [...listed].map(([path, sha256]) => ({ path, sha256, contentType: contentTypeOf(path) }))
    return changeAudited(
      this.#deps.db,
      async (tx) => {
        if ((await this.#statusIn(tx, siteId, id)) !== 'uploading') throw closed()
        const missing = (await tx.fly(q.adoptFiles(siteId, id, entries))) ?? '[]'
        return `{"missing":${missing},"deploy":${requireFound(await tx.fly(q.recount(id)), 'deploy')}}`
      },
      () => act.audit({ target: id, newValues: { files: files.length } }),
    )
  }

  /** Runs an audited change that returns the changed deploy. */
  #change(act: AuditSource, change: (tx: Tx) => Promise<string>): Promise<string> {
    return changeAudited(this.#deps.db, change, (text) => {
      const newValues = JSON.parse(text) as { id: string }
      return act.audit({ target: newValues.id, newValues })
    })
  }

  #path(name: string): string {
    const path = name.replaceAll('\\', '/')
    if (!this.#deps.isObjectName(path)) throw badRequest('invalid file path')
    return path
  }

  async #statusIn(tx: Tx, siteId: string, id: string): Promise<string> {
    const [locked] = await tx.rows<{ status: string }>(q.lockDeploy(siteId, id))
    if (locked) return locked.status
    // Throws 404 for the site or for the deploy.
    await this.one(siteId, id)
    throw notFound('deploy not found', 'deploy_not_found')
  }
}

const closed = (): AppError => new AppError('wrong_state', 'deploy is not accepting file uploads')

const requireFound = (text: string | null, what: 'site' | 'deploy'): string =>
  found(text, `${what} not found`, `${what}_not_found`)
