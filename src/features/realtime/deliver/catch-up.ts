import { sleep } from '../../../core/clock.ts'
import { AppError } from '../../../core/errors.ts'
import { isBefore, type Position } from '../../../db/changes/position.ts'
import { interestOf } from '../subscribe/interest.ts'
import { intersect, type Wanted } from '../subscribe/wanted.ts'
import { EncodedChanges } from '../visibility/encoded-change.ts'
import type { LogFeed } from './log-feed.ts'
import type { Subscription } from './subscription.ts'

type On = {
  /** The subscription is at the present, and waits for the next page together with others. */
  join: () => void
  fail: (error: AppError) => void
}

const CHANGES_PER_WRITE = 50
const WAIT_MS = 20

/** Brings a subscription from the past to the present, at the pace of its client. */
export async function catchUp(subscription: Subscription, feed: LogFeed, on: On): Promise<void> {
  const { client, missed } = subscription
  while (!client.closed) {
    const [part] = missed
    if (part) {
      const isMore = isBefore(part.position, subscription.position) && (await replay(part, part.wanted))
      if (!isMore) missed.shift()
    } else if (subscription.position === feed.here) return on.join()
    else if (await replay(subscription)) continue
    else if (await feed.retry(() => feed.isKnown(subscription.position))) {
      // Another process was ahead of this one when the client came from there.
      await sleep(WAIT_MS)
    } else {
      subscription.position = feed.here
      client.reset(subscription.position)
    }
  }

  /**
   * Delivers the next page after a cursor and moves the cursor, as long as the interest stays the same. False when there
   * is no such page. `part`: only of these tables, and up to where the subscription is.
   */
  async function replay(cursor: { position: Position }, part?: Wanted): Promise<boolean> {
    const { interest } = subscription
    const { life } = feed
    const page = await feed.after(cursor.position, interest.payer)
    const changes = part ? page.filter(({ position }) => !isBefore(subscription.position, position)) : page
    const last = changes.at(-1)
    if (!last) return false
    const asked = part ? interestOf(interest.who, intersect(interest.wanted, part)) : interest
    const verdict = (await feed.check(changes, [asked], true)).get(asked)
    if (verdict instanceof AppError) on.fail(verdict)
    const list = verdict instanceof EncodedChanges ? subscription.newIn(verdict).list : []
    const isStillTrue = (): boolean => !client.closed && subscription.interest === interest && feed.life === life
    for (let i = 0; i < list.length && isStillTrue(); i += CHANGES_PER_WRITE) {
      const some = list.slice(i, i + CHANGES_PER_WRITE)
      client.deliver(new EncodedChanges(some))
      cursor.position = some.at(-1)?.position ?? last.position
      await client.drained()
    }
    if (isStillTrue()) cursor.position = last.position
    return true
  }
}
