import type { LogPoint } from './sql.ts'

/** A point in the log, opaque to clients: `<xid>-<id>`. */
export type Position = string

const POSITION = /^(\d{1,20})-(\d{1,19})$/
const MAX_XID = 2n ** 64n - 1n
const MAX_ID = 2n ** 63n - 1n

export function pointOf(position: Position): LogPoint | undefined {
  const [, xid, id] = POSITION.exec(position) ?? []
  if (xid === undefined || id === undefined || BigInt(xid) > MAX_XID || BigInt(id) > MAX_ID) return undefined
  return { xid, id }
}

export const positionOf = ({ xid, id }: LogPoint): Position => `${xid}-${id}`

/** Whether `a` is earlier in the log than `b`. */
export function isBefore(a: Position, b: Position): boolean {
  const [x, y] = [pointOf(a), pointOf(b)]
  if (!x || !y) return false
  return BigInt(x.id) < BigInt(y.id)
}
