import { createHmac, randomBytes } from 'node:crypto'
import { AppError } from '../../core/errors.ts'
import { equalInConstantTime } from '../../core/secret.ts'
import type { Agent } from './agent.ts'

const LIFE_MS = 5 * 60_000

/** What a confirmation says: when it ends, that it is one alone, which difference, and what went before. */
type Confirmed = { readonly e: number; readonly n: string; readonly d: string; readonly g: string }

/** Tokens that let a tried write be done: bound to user, client, grant, resource, statement and difference. */
export class Confirmations {
  readonly #key: Buffer

  constructor(key: Buffer) {
    this.#key = key
  }

  /** Of a difference; with a key, so that nothing hidden can be guessed from it. */
  digest(nonce: string, difference: string): string {
    return createHmac('sha256', this.#key).update(`difference ${nonce} `).update(difference).digest('base64url')
  }

  issue(agent: Agent, statement: string, difference: string, generation: string): string {
    const n = randomBytes(16).toString('base64url')
    const confirmed: Confirmed = { e: Date.now() + LIFE_MS, n, d: this.digest(n, difference), g: generation }
    const payload = Buffer.from(JSON.stringify(confirmed)).toString('base64url')
    return `${payload}.${this.#sign(agent, statement, payload)}`
  }

  /** Throws unless this token was issued for the same statement of the same agent, less than five minutes ago. */
  check(agent: Agent, statement: string, token: string): { nonce: string; digest: string; generation: string } {
    const [payload = '', signature = ''] = token.split('.')
    if (!equalInConstantTime(signature, this.#sign(agent, statement, payload))) {
      throw notConfirmed('confirm is not of this statement')
    }
    const { e, n, d, g } = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')) as Confirmed
    if (Date.now() > e) throw notConfirmed('confirm is older than five minutes')
    return { nonce: n, digest: d, generation: g }
  }

  #sign({ userId, clientId, grantId, apiKeyId, resource }: Agent, statement: string, payload: string): string {
    const bound = JSON.stringify([payload, userId, clientId, grantId, apiKeyId, resource, statement])
    return createHmac('sha256', this.#key).update('confirm ').update(bound).digest('base64url')
  }
}

export const notConfirmed = (message: string): AppError =>
  new AppError('conflict', `${message}: nothing was done, try the write again without confirm`)

/** The same arguments are the same text. */
export function statementOf(tool: string, args: Readonly<Record<string, unknown>>): string {
  const { confirm: _confirm, ...rest } = args
  return JSON.stringify([tool, sorted(rest)])
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  // Marked, so that no array is the same text as an object.
  return [{}, ...fields.map(([name, inner]) => [name, sorted(inner)])]
}
