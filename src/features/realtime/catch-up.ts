import { AppError } from '../../core/errors.ts'
import { type Change, isBefore, type Position } from '../../db/changes/log.ts'
import type { Subscriber } from './subscriber.ts'
import { joined } from './told-change.ts'
import { type Interest, interestOf } from './visibility/interest.ts'
import type { Verdict } from './visibility/judge.ts'
import { type Wanted, within } from './visibility/wanted.ts'

type Deps = {
  /** Where the present is. */
  here: () => Position
  join: (subscriber: Subscriber) => void
  /** Some of what came after a place; nothing when that is all. */
  after: (position: Position) => Promise<readonly Change[]>
  isKnown: (position: Position) => Promise<boolean>
  judge: (interest: Interest, changes: readonly Change[]) => Promise<Verdict>
  fail: (subscriber: Subscriber, interest: Interest, error: AppError) => void
}

const FRAMES_PER_WRITE = 50

export function catchingUp({ here, join, after, isKnown, judge, fail }: Deps) {
  /** Brings a subscriber from the past to the present; it joins the others at the moment it has caught up. */
  async function bring(subscriber: Subscriber): Promise<void> {
    while (!subscriber.closed) {
      const missed = subscriber.missed.shift()
      if (missed) {
        await tellMissed(subscriber, missed)
        continue
      }
      const position = subscriber.at
      if (position === here()) return join(subscriber)
      const changes = await after(position)
      if (changes.length > 0) {
        await tellPast(subscriber, changes, {
          interest: () => subscriber.interest,
          told: (at) => {
            subscriber.at = at
          },
        })
        // Read everything, but the present is elsewhere: behind us for a moment, or in another life of the log.
      } else if (!(await isKnown(position))) {
        subscriber.at = here()
        subscriber.reset(subscriber.at)
      } else await new Promise((resolve) => setTimeout(resolve, 20).unref())
    }
  }

  /** What it asked for from `from` on, up to the place where it is. */
  async function tellMissed(
    subscriber: Subscriber,
    { wanted, from }: { wanted: Wanted; from: Position },
  ): Promise<void> {
    const end = subscriber.at
    let position = from
    const told = (at: Position): void => {
      position = at
    }
    const interest = memo((now: Interest) => interestOf(now.who, within(now.wanted, wanted)))
    while (!subscriber.closed && isBefore(position, end)) {
      const changes = (await after(position)).filter((change) => !isBefore(end, change.position))
      if (changes.length === 0) return
      await tellPast(subscriber, changes, { interest: () => interest(subscriber.interest), told })
    }
  }

  /** All of these, at the pace of its client, as far as it wants them: what it wants may change meanwhile. */
  async function tellPast(
    subscriber: Subscriber,
    changes: readonly Change[],
    { interest: interestNow, told }: { interest: () => Interest; told: (at: Position) => void },
  ): Promise<void> {
    let rest = changes
    while (rest.length > 0 && !subscriber.closed) {
      const interest = interestNow()
      const verdict = await judge(interest, rest)
      if (verdict instanceof AppError) return fail(subscriber, interest, verdict)
      let next = 0
      for (let i = 0; i < verdict.length && !subscriber.closed && interestNow() === interest; i += FRAMES_PER_WRITE) {
        const part = verdict.slice(i, i + FRAMES_PER_WRITE)
        const last = part.at(-1)?.n ?? 0
        subscriber.send(joined(part, subscriber.format))
        told(rest[last]?.position ?? here())
        next = last + 1
        await subscriber.drained()
      }
      rest = interestNow() === interest ? [] : rest.slice(next)
    }
    told(changes.at(-1)?.position ?? here())
  }

  return bring
}

/** The answer to the same question is the same object. */
function memo<Q, A>(answer: (question: Q) => A): (question: Q) => A {
  let last: { question: Q; answered: A } | undefined
  return (question) => {
    if (last?.question !== question) last = { question, answered: answer(question) }
    return last.answered
  }
}
