import { sleep } from '../../../core/clock.ts'
import { AppError } from '../../../core/errors.ts'
import { type Change, isBefore, type Position } from '../../../db/changes/log.ts'
import { type Interest, interestOf } from '../subscribe/interest.ts'
import { type Wanted, within } from '../subscribe/wanted.ts'
import type { Verdict } from '../visibility/batch-view.ts'
import { EncodedChanges } from '../visibility/encoded-change.ts'
import type { Subscription } from './subscription.ts'

type Deps = {
  /** Where the present is. */
  here: () => Position
  /** Some of what came between a position and the present; nothing when that is all. */
  after: (position: Position) => Promise<readonly Change[]>
  isKnown: (position: Position) => Promise<boolean>
  judge: (changes: readonly Change[], interest: Interest) => Promise<Verdict | undefined>
  fail: (error: AppError) => void
  /** The subscription is at the present, and waits for the next page together with others. */
  join: () => void
}

const CHANGES_PER_WRITE = 50
const WAIT_MS = 20

/** Brings a subscription from the past to the present, at the pace of its client. */
export async function catchUp(subscription: Subscription, deps: Deps): Promise<void> {
  const { client, missed } = subscription
  while (!client.closed) {
    const [part] = missed
    if (part) {
      const isOver =
        !isBefore(part.position, subscription.position) ||
        !(await replayPage(subscription, part, deps, { wanted: part.wanted, end: subscription.position }))
      if (isOver) missed.shift()
    } else if (subscription.position === deps.here()) return deps.join()
    else if (await replayPage(subscription, subscription, deps)) continue
    else if (await deps.isKnown(subscription.position)) {
      // Another process was ahead of this one when the client came from there.
      await sleep(WAIT_MS)
    } else {
      subscription.position = deps.here()
      client.reset(subscription.position)
    }
  }
}

/**
 * Delivers the next page after a cursor and moves the cursor, at most as far as the interest stays the same. False when
 * there is no such page. `part`: only of these tables, and up to an end.
 */
async function replayPage(
  subscription: Subscription,
  cursor: { position: Position },
  { after, judge, fail }: Deps,
  part?: { wanted: Wanted; end: Position },
): Promise<boolean> {
  const { client, interest } = subscription
  const start = cursor.position
  const page = await after(start)
  const changes = part ? page.filter(({ position }) => !isBefore(part.end, position)) : page
  const last = changes.at(-1)
  if (!last) return false
  const verdict = await judge(changes, part ? interestOf(interest.who, within(interest.wanted, part.wanted)) : interest)
  if (verdict instanceof AppError) fail(verdict)
  const list = verdict instanceof EncodedChanges ? verdict.list : []
  const isStillTrue = (): boolean => !client.closed && subscription.interest === interest
  // The log may have lost the position meanwhile, which moved the cursor.
  if (cursor.position !== start) return true
  for (let i = 0; i < list.length && isStillTrue(); i += CHANGES_PER_WRITE) {
    const some = new EncodedChanges(list.slice(i, i + CHANGES_PER_WRITE))
    client.deliver(some)
    cursor.position = some.list.at(-1)?.position ?? start
    await client.drained()
  }
  if (isStillTrue()) cursor.position = last.position
  return true
}
