import { AppError } from '../../../core/errors.ts'
import { type Identity, SYSTEM, userIdOf } from '../../../core/identity.ts'
import type { Db } from '../../../db/db.ts'
import { policyRule } from '../../../db/schema/policy-rule.ts'
import type { Sql } from '../../../db/sql.ts'
import type { CallerQueue } from '../visibility/caller-queue.ts'
import { isTransient } from '../visibility/table-changes.ts'
import { askPolicies, type ChannelSurvey, type PolicyRow, readOnlyNow, surveyChannels } from './sql.ts'

/** Of joining (`select`, without an event) or sending. */
export type ChannelQuestion = {
  readonly kind: 'select' | 'insert'
  readonly channel: string
  readonly event: string | null
}

/** `removed`: put out by the operator, for a while. */
export type ChannelVerdict = 'allowed' | 'forbidden' | 'removed'

type Deps = { db: Db; policies: Pick<CallerQueue, 'ask'>; isOpen: (channel: string) => boolean }

/** What the policies on svc.channels let a caller do. They are evaluated as the caller and at its expense. */
export class ChannelRights {
  readonly #deps: Deps

  constructor(deps: Deps) {
    this.#deps = deps
  }

  async survey(): Promise<ChannelSurvey> {
    return JSON.parse((await this.#deps.db.fly(SYSTEM, surveyChannels, { givesWay: true })) ?? '{}') as ChannelSurvey
  }

  /** One verdict per question. Throws when the database is away. */
  async ask(
    who: Identity,
    questions: readonly ChannelQuestion[],
    given?: ChannelSurvey,
  ): Promise<readonly ChannelVerdict[]> {
    const survey = given ?? (await this.survey())
    const userId = userIdOf(who)
    const removed = new Set(survey.bans.flatMap(([channel, banned]) => (banned === userId ? [channel] : [])))
    const { isOpen } = this.#deps
    const isAdmin = who.kind === 'admin'
    const asked = questions.filter(({ channel }) => !isAdmin && !isOpen(channel) && !removed.has(channel))
    const allowed = new Set(asked.length > 0 ? await this.#allowed(who, asked, survey) : [])
    const isAsked = new Set(asked)
    return questions.map((question) => {
      if (removed.has(question.channel)) return 'removed'
      if (who.kind === 'admin' && who.role === 'viewer' && question.kind === 'insert') return 'forbidden'
      return !isAsked.has(question) || allowed.has(question) ? 'allowed' : 'forbidden'
    })
  }

  async #allowed(
    who: Identity,
    questions: readonly ChannelQuestion[],
    survey: ChannelSurvey,
  ): Promise<readonly ChannelQuestion[]> {
    const { db, policies } = this.#deps
    const statement = askPolicies(
      JSON.stringify(questions),
      ruleFor(survey.policies, 'select'),
      ruleFor(survey.policies, 'insert'),
    )
    try {
      const { letters } = await policies.ask(userIdOf(who) ?? '', async (timeoutMs) => {
        const [, text] = await db.fly(who, [readOnlyNow, statement], { kind: 'slow', timeoutMs })
        const [letters = '', ms] = (text ?? '').split('|')
        return { letters, ms: Number(ms) }
      })
      return questions.filter((_, i) => letters[i] === 't')
    } catch (error) {
      if (!(error instanceof AppError) || isTransient(error)) throw error
      // A policy that raises for one name says nothing about the others.
      if (questions.length === 1 || error.status === 504) return []
      const each: ChannelQuestion[] = []
      for (const question of questions) each.push(...(await this.#allowed(who, [question], survey)))
      return each
    }
  }
}

function ruleFor(policies: readonly PolicyRow[], kind: ChannelQuestion['kind']): Sql {
  const command = kind === 'select' ? 'r' : 'a'
  return policyRule(
    policies.flatMap((policy) => {
      if (policy.command !== command && policy.command !== '*') return []
      const expression = kind === 'select' ? policy.using : (policy.check ?? policy.using)
      return expression === null ? [] : [{ permissive: policy.permissive, expression }]
    }),
  )
}
