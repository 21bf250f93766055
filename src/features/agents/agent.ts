import type { AgentTerms, Identity } from '../../core/identity.ts'

export type KeyIdentity = Extract<Identity, { kind: 'key' }>

/** An agent at work: its user and client, what they agreed to, and the row that they share. */
export type Agent = {
  readonly id: string
  readonly who: KeyIdentity
  readonly userId: string
  readonly clientId: string
  readonly auto: number | null
  readonly release: boolean
  readonly resource: string
  readonly grantId: string | null
  /** Null: an OAuth token. */
  readonly apiKeyId: string | null
}

/** The most rows that an agent may write in an hour without the user's hand, in any form. */
export const MOST_ROWS = 100

/** How an agent is known in the database: its client's own id, or that of its API key. */
export const clientOf = (who: KeyIdentity): { client: string; clientId: string } =>
  who.agent ?? { client: who.keyId, clientId: who.keyId }

export function agentOf(id: string, who: KeyIdentity, userId: string, resource: string): Agent {
  const terms: Pick<AgentTerms, 'auto' | 'release'> = who.agent ?? { auto: null, release: false }
  return {
    id,
    who,
    userId,
    clientId: clientOf(who).clientId,
    auto: terms.auto,
    release: terms.release,
    resource,
    grantId: who.grantId ?? null,
    apiKeyId: who.via === 'api_key' ? who.keyId : null,
  }
}

/** Whether its grant lets it write at all. */
export const mayWrite = ({ who }: Agent): boolean => who.grant.scope !== 'readonly'
