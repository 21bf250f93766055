import { randomBytes } from 'node:crypto'
import { AppError, notFound } from '../../core/errors.ts'
import { ON_BEHALF, type UserIdentity } from '../../core/identity.ts'
import { hmacSha256, randomToken, sha256 } from '../../core/secret.ts'
import type { Db } from '../../db/db.ts'
import { addressSubject } from '../../http/wire/client-address.ts'
import { tooManyFailures } from '../../identity/errors.ts'
import { requireOwnFactor } from '../../identity/second-factor.ts'
import { lockCaller } from '../../identity/users.ts'
import type { Client } from './client-sql.ts'
import * as q from './device-sql.ts'

export const DEVICE_SECONDS = 600
/** Seconds between two polls. */
export const POLL_SECONDS = 5
const MAX_OPEN = 1000
const [MAX_MISSES, MISS_SECONDS] = [5, 60]

/** 32 characters that are not mistaken for each other: eight of them are 40 bits. */
const ALPHABET = 'ABCDEFGHJKLMNPQRSTUVWXYZ23456789'

const newUserCode = (): string => {
  const letters = [...randomBytes(8)].map((byte) => ALPHABET[byte % ALPHABET.length] ?? '').join('')
  return `${letters.slice(0, 4)}-${letters.slice(4)}`
}

/** As people type it: small letters, blanks and the dash do not matter. */
const plainCode = (text: string): string => text.toUpperCase().replace(/[^A-Z0-9]/g, '')

type DeviceDeps = { db: Db; userCodeKey: Buffer }

/** The device grant (RFC 8628): a program shows a short code, and its user decides in a browser elsewhere. */
export class DeviceGrant {
  readonly #deps: DeviceDeps

  constructor(deps: DeviceDeps) {
    this.#deps = deps
  }

  async begin(
    client: Client,
    scope: string,
    tables: readonly string[],
  ): Promise<{ deviceCode: string; userCode: string }> {
    const [deviceCode, userCode] = [randomToken(), newUserCode()]
    const made = await this.#deps.db.run(
      ON_BEHALF,
      q.insertDeviceCode({
        hash: sha256(deviceCode),
        userCodeHash: this.#hashOf(userCode),
        client: client.id,
        scope,
        tables,
        seconds: DEVICE_SECONDS,
        pace: POLL_SECONDS,
        most: MAX_OPEN,
      }),
    )
    if (made > 0) return { deviceCode, userCode }
    throw new AppError('rate_limited', 'the client has too many open codes', { headers: { 'Retry-After': '60' } })
  }

  /** What a user code asks for, as JSON. */
  async show(user: UserIdentity, userCode: string, ip: string): Promise<string> {
    return this.#guess(user, ip, async () => this.#deps.db.fly(ON_BEHALF, q.shownDevice(this.#hashOf(userCode))))
  }

  async decide(user: UserIdentity, userCode: string, decision: 'approve' | 'deny', ip: string): Promise<void> {
    const hash = this.#hashOf(userCode)
    await this.#guess(user, ip, async () => {
      // Before the second factor is required, which a wrong code never needs.
      const shown = await this.#deps.db.fly(ON_BEHALF, q.shownDevice(hash))
      if (shown === null) return null
      const decided = await this.#deps.db.tx(ON_BEHALF, async (tx) => {
        await lockCaller(tx, user)
        if (decision === 'approve') await requireOwnFactor(tx, user)
        return tx.run(q.decideDevice(hash, user, decision))
      })
      return decided === 0 ? null : shown
    })
  }

  /** RFC 8628, section 5.1: at most five wrong codes a minute, of an account and of an address. */
  async #guess(user: UserIdentity, ip: string, look: () => Promise<string | null>): Promise<string> {
    const subjects = [`user ${user.id}`, `address ${addressSubject(ip)}`]
    const { db } = this.#deps
    const counted = JSON.parse((await db.fly(ON_BEHALF, q.countTry(subjects, MISS_SECONDS))) ?? '{}')
    if (counted.misses > MAX_MISSES) throw tooManyFailures(counted.seconds)
    let isMiss = false
    try {
      const found = await look()
      isMiss = found === null
      if (found !== null) return found
    } finally {
      if (!isMiss) await db.run(ON_BEHALF, q.forgiveTry(subjects))
    }
    throw notFound('unknown or expired user code', 'device_code_not_found')
  }

  #hashOf(userCode: string): string {
    return hmacSha256(this.#deps.userCodeKey, plainCode(userCode)).toString('hex')
  }
}
