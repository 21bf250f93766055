import { AppError, hasStatus, reasonOf } from '../../../core/errors.ts'
import type { ObjectSelection } from './query.ts'

/** Something in the catalogue about which PostgreSQL raises when it is asked. */
export type OddObject = { readonly oid: number; readonly name: string; readonly reason: string }

const MAX_ODD = 50

/**
 * One odd object must not hide all others: the objects are described in ever smaller groups until those that raise stand
 * alone. `known` are asked first, each for itself.
 */
export async function findOdd(
  objects: readonly { oid: number; name: string }[],
  known: readonly { oid: number; name: string }[],
  describe: (described: ObjectSelection) => Promise<unknown>,
): Promise<OddObject[]> {
  const found: OddObject[] = []
  const look = async (group: readonly { oid: number; name: string }[]): Promise<void> => {
    const [first] = group
    if (!first || found.length >= MAX_ODD) return
    try {
      await describe({ without: found.map(({ oid }) => oid), only: group.map(({ oid }) => oid) })
    } catch (error) {
      if (hasStatus(error, 503)) throw error
      if (group.length === 1) {
        found.push({ ...first, reason: causeOf(error) })
        return
      }
      const half = Math.ceil(group.length / 2)
      await look(group.slice(0, half))
      await look(group.slice(half))
    }
  }
  for (const object of known) await look([object])
  await look(objects.filter(({ oid }) => !known.some((object) => object.oid === oid)))
  return found
}

const causeOf = (error: unknown): string => reasonOf((error instanceof AppError && error.cause) || error)
