import { randomUUID } from 'node:crypto'
import { randomToken } from '../../../../core/secret.ts'
import { warmUp } from './ceremony.ts'
import { CHALLENGE_SECONDS } from './options.ts'
import type { NewChallenge } from './sql.ts'

export function newChallenge(kind: NewChallenge['kind']): NewChallenge {
  warmUp()
  return { id: randomUUID(), kind, challenge: randomToken(), seconds: CHALLENGE_SECONDS }
}
