import type pg from 'pg'
import { sleep } from '../../core/clock.ts'
import { reasonOf } from '../../core/errors.ts'
import { asConnectionError, isLoginRefused, raisedBy } from '../pg-errors.ts'
import { openConnection } from '../protocol/driver.ts'
import { type Hosts, hostsOf } from '../protocol/hosts.ts'
import { LOOK_AGAIN_MS, LOOK_TIMEOUT_MS, OTHERS_MS } from './tuning.ts'

/** A server that takes writes, and a connection to it. */
export type FoundPrimary = { readonly url: string; readonly timeline: number; readonly client: pg.Client }

/** No host takes writes now, and one may soon: a standby, one that starts, one that does not answer. */
class NoPrimary extends Error {}

/**
 * The timeline is read from the name of a WAL file: the control file has it only after the checkpoint that follows a
 * promotion. Services without WAL functions (Aurora) have one timeline.
 */
const LOOK = `
  select pg_catalog.pg_is_in_recovery() as standby,
    pg_catalog.current_setting('default_transaction_read_only') as readonly`
const TIMELINE = `select pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) as timeline`

/** Finds, among the hosts of a connection string, the one that takes writes. */
export class Primary {
  readonly #hosts: Hosts
  #url: string

  constructor(url: string) {
    this.#hosts = hostsOf(url)
    this.#url = this.#hosts.urls[0] ?? url
  }

  /** The primary that was found last. */
  get url(): string {
    return this.#url
  }

  get hasOthers(): boolean {
    return this.#hosts.urls.length > 1
  }

  /** Whether a connection to a standby is of no use. */
  get mustWrite(): boolean {
    return this.#hosts.attrs !== 'any'
  }

  /** Looks at all hosts at once. Of several that say they are primary it is the one with the highest timeline. */
  async find(applicationName?: string): Promise<FoundPrimary> {
    const failures: unknown[] = []
    const found: FoundPrimary[] = []
    let best: FoundPrimary | undefined
    let isChosen = false
    const looks = this.#hosts.urls.map(async (url) => {
      const primary = await this.#look(url, applicationName)
      if (isChosen) void primary.client.end().catch(() => {})
      else found.push(primary)
    })
    const all = Promise.all(looks.map((look) => look.catch((error: unknown) => void failures.push(error))))
    // Silent hosts are waited for only until one was found.
    const first = Promise.any(looks).then(
      () => sleep(OTHERS_MS),
      () => undefined,
    )
    await Promise.race([all, first])
    isChosen = true
    for (const one of found) if (best === undefined || one.timeline > best.timeline) best = one
    for (const { client } of found.filter((one) => one !== best)) void client.end().catch(() => {})
    if (!best) throw this.#noPrimary(failures)
    this.#url = best.url
    return best
  }

  /** As `find`, for as long as there may soon be one. `waiting` is called once, with the reason. */
  async wait(ms: number, waiting: (reason: string) => void): Promise<FoundPrimary> {
    const deadline = performance.now() + ms
    for (let isFirst = true; ; isFirst = false) {
      try {
        return await this.find()
      } catch (error) {
        if (!(error instanceof NoPrimary) || performance.now() >= deadline) throw error
        if (isFirst) waiting(error.message)
        await sleep(LOOK_AGAIN_MS)
      }
    }
  }

  /** Whether another host says it is primary, on a timeline that was begun later. */
  async isSuperseded(timeline: number): Promise<boolean> {
    const others = this.#hosts.urls.filter((url) => url !== this.#url)
    const newer = async (url: string): Promise<boolean> => {
      const found = await this.#look(url)
      await found.client.end()
      return found.timeline > timeline
    }
    const answers = await Promise.all(others.map((url) => newer(url).catch(() => false)))
    return answers.includes(true)
  }

  async #look(url: string, applicationName?: string): Promise<FoundPrimary> {
    const client = await openConnection({
      url,
      ...(applicationName && { applicationName }),
      ...(this.hasOthers && { connectTimeoutMs: LOOK_TIMEOUT_MS }),
    })
    try {
      const state = await client.query<{ standby: string; readonly: string }>(LOOK)
      const { standby = 'f', readonly = 'off' } = state.rows[0] ?? {}
      if (this.mustWrite && standby === 't') throw new NoPrimary('the server is a standby')
      if (this.#hosts.attrs === 'read-write' && readonly === 'on') throw new NoPrimary('the server takes no writes')
      return { url, timeline: standby === 't' ? 0 : await timelineOf(client), client }
    } catch (error) {
      await client.end().catch(() => {})
      throw error
    }
  }

  /** Where a login is refused, waiting does not help; nor where the one host is not there at all. */
  #noPrimary(failures: readonly unknown[]): Error {
    const reasons = [...new Set(failures.map(reasonOf))].join('; ')
    const isSoon = failures.some((error) => error instanceof NoPrimary || this.#mayCome(error))
    const message = this.hasOthers ? `no primary among ${this.#hosts.urls.length} hosts: ${reasons}` : reasons
    if (isSoon) return asConnectionError(new NoPrimary(message, { cause: failures[0] }))
    const [only] = failures
    return !this.hasOthers && only instanceof Error ? only : asConnectionError(new Error(message, { cause: only }))
  }

  #mayCome(error: unknown): boolean {
    if (raisedBy(error) !== undefined)
      return !isLoginRefused(error) && /^(?:57P|53|08)/.test(raisedBy(error)?.code ?? '')
    const { code } = error as NodeJS.ErrnoException
    return this.hasOthers || !(code === 'ECONNREFUSED' || code === 'ENOTFOUND' || code === 'ENOENT')
  }
}

async function timelineOf(client: pg.Client): Promise<number> {
  try {
    const { rows } = await client.query<{ timeline: string }>(TIMELINE)
    return Number.parseInt(rows[0]?.timeline ?? '1', 16)
  } catch (error) {
    if (raisedBy(error) === undefined) throw error
    return 1
  }
}
