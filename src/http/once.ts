import type { KeepOnce, Once, OnceAnswer } from '../core/once.ts'
import type { Reply } from './route.ts'

/**
 * The option of `db.fly` and `db.tx` that keeps the reply of a call in the transaction of its write. `rights` are what the
 * write and its reply need; a caller who has lost one of them does not get the reply again.
 */
export function keepReply<Result>(
  once: Once,
  rights: readonly string[],
  reply: (result: Result) => Reply,
): KeepOnce<Result> {
  once.rights = rights
  return { key: once, answer: (result) => answerOf(reply(result)) }
}

const answerOf = ({ status, json, body }: Reply): OnceAnswer => ({
  status,
  body: json ?? (body === undefined ? '' : JSON.stringify(body)),
})
