import { randomUUID } from 'node:crypto'
import { randomToken } from '../../../core/secret.ts'
import { ready } from './ceremony.ts'
import { CHALLENGE_SECONDS } from './options.ts'
import type { NewChallenge } from './sql.ts'

export function newChallenge(kind: NewChallenge['kind']): NewChallenge {
  // While somebody looks for their authenticator. Whoever needs it then hears of a failure.
  ready().catch(() => {})
  return { id: randomUUID(), kind, challenge: randomToken(), seconds: CHALLENGE_SECONDS }
}
