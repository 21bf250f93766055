import { AppError, hasStatus, reasonOf } from '../../../core/errors.ts'
import type { ObjectSelection } from './query.ts'

/** An object that PostgreSQL cannot describe without an error. */
export type OddObject = { readonly oid: number; readonly name: string; readonly reason: string }

const MAX_ODD = 50

/**
 * Finds the odd objects, so that the rest can be described: bisects the objects until those that raise are alone. Objects
 * in `known` are tried first, one by one.
 */
export async function findOdd(
  objects: readonly { oid: number; name: string }[],
  known: readonly { oid: number; name: string }[],
  describe: (selection: ObjectSelection) => Promise<unknown>,
): Promise<OddObject[]> {
  const found: OddObject[] = []
  const search = async (group: readonly { oid: number; name: string }[]): Promise<void> => {
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
      await search(group.slice(0, half))
      await search(group.slice(half))
    }
  }
  for (const object of known) await search([object])
  await search(objects.filter(({ oid }) => !known.some((object) => object.oid === oid)))
  return found
}

const causeOf = (error: unknown): string => reasonOf((error instanceof AppError && error.cause) || error)
