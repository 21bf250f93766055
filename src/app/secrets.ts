import type { Config } from '../config/config.ts'
import { reasonOf } from '../core/errors.ts'
import { type Observe, operatorWarning } from '../core/observe.ts'
import { deriveKey } from '../core/secret.ts'
import { SecretBox } from '../core/secret-box.ts'
import type { Db } from '../db/db.ts'
import type { Pool } from '../db/pool/pool.ts'
import { type Resealed, reseal, type SealedColumn } from '../db/sealed.ts'
import type { SecretFile } from '../db/setup/embedded/secret-file.ts'
import { adminTotpSecrets } from '../features/admin/second-factor.ts'
import { loadRootSecret } from '../features/auth/keys.ts'
import { Revocations } from '../features/auth/revocations.ts'
import { ensureSigningKey, signingSecrets } from '../features/auth/signing-keys.ts'
import { backupCodeKey } from '../features/mfa/backup-code-key.ts'
import { totpSecrets } from '../features/mfa/totp.ts'
import { webhookSecrets } from '../features/webhooks/sealed.ts'
import type { Feature } from '../http/feature.ts'
import type { Lifecycle } from './lifecycle.ts'

/** What tokens and secrets at rest are made of, and which tokens ended early. */
export type Secrets = { readonly rootSecret: string; readonly box: SecretBox; readonly revocations: Revocations }

export async function openSecrets(
  { auth }: Config,
  lifecycle: Lifecycle,
  { db, observe, secretFile }: { db: Pool; observe: Observe; secretFile: SecretFile | undefined },
): Promise<Secrets> {
  const rootSecret = await loadRootSecret(db, auth.jwt_secret, secretFile)
  const box = secretBoxOf(auth, rootSecret)
  // First, because the revocations are read with the keys.
  await ensureSigningKey(db, auth.signing_algorithm, { box, lifetimeMs: auth.token_duration * 1000 })
  const revocations = lifecycle.own(await Revocations.open({ db, observe }))
  return { rootSecret, box, revocations }
}

/** All encrypted columns. */
const SEALED_COLUMNS: readonly SealedColumn[] = [
  totpSecrets,
  adminTotpSecrets,
  backupCodeKey,
  webhookSecrets,
  signingSecrets,
]

/**
 * Previous keys come from three sources: configured keys, keys derived from configured root secrets, and the key derived
 * from the current root secret, which servers without a configured key use.
 */
export function secretBoxOf(
  { encryption_key, previous_encryption_keys }: Config['auth'],
  rootSecret: string,
): SecretBox {
  const derived = (root: string): Buffer => deriveKey(root, '', 'secrets at rest')
  const named = (key: string): Buffer[] => (/^[0-9a-f]{64}$/i.test(key) ? [Buffer.from(key, 'hex')] : [])
  const [current = derived(rootSecret)] = named(encryption_key)
  const previous = previous_encryption_keys.flatMap((key) => [...named(key), derived(key)])
  return new SecretBox(current, [...previous, derived(rootSecret)])
}

export async function resealAll(db: Db, box: SecretBox, signal?: AbortSignal): Promise<Resealed[]> {
  const all: Resealed[] = []
  for (const column of SEALED_COLUMNS) all.push(await reseal(db, box, column, signal))
  return all
}

export const unreadableWarning = ({ name, unreadable }: Resealed): string =>
  `${unreadable} ${name} cannot be read: name the key they were encrypted with in auth.previous_encryption_keys`

/** Reseals secrets of older keys in the background at every start, and warns of secrets that no key can read. */
export class SecretKeeper implements Feature {
  readonly #deps: { db: Db; box: SecretBox; observe: Observe }
  readonly #stopping = new AbortController()
  #underWay: Promise<void> = Promise.resolve()
  #warnings: readonly string[] = []

  constructor(deps: { db: Db; box: SecretBox; observe: Observe }) {
    this.#deps = deps
  }

  start(): void {
    this.#underWay = this.#run().catch((error: unknown) =>
      this.#deps.observe({ message: 'secrets not encrypted anew', attrs: { error: reasonOf(error) } }),
    )
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#underWay
  }

  warnings(): readonly string[] {
    return this.#warnings
  }

  async #run(): Promise<void> {
    const { db, box, observe } = this.#deps
    const all = await resealAll(db, box, this.#stopping.signal)
    this.#warnings = all.filter(({ unreadable }) => unreadable > 0).map(unreadableWarning)
    for (const warning of this.#warnings) observe(operatorWarning(warning))
    for (const { name, resealed } of all) {
      if (resealed > 0) observe({ message: 'secrets encrypted anew', attrs: { name, count: resealed } })
    }
  }
}
