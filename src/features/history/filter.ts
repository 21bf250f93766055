import { badRequest } from '../../core/errors.ts'
import { parseMoment } from '../../core/moment.ts'
import type { ChangeFilter } from '../../db/history/history.ts'

export function filterOf(query: Readonly<Record<string, string>>): ChangeFilter {
  const given = (name: string): string | undefined => query[name] || undefined
  const [table, key, user, requestId] = [given('table'), given('key'), given('user'), given('request_id')]
  const [transaction, from, to] = [given('transaction'), given('from'), given('to')]
  if (transaction !== undefined && !isTransaction(transaction)) throw badRequest('invalid transaction')
  const until = to === undefined ? undefined : parseMoment(to, 'to')
  return {
    ...(table !== undefined && { table }),
    ...(key !== undefined && { key }),
    ...(user !== undefined && { user }),
    ...(requestId !== undefined && { requestId }),
    ...(transaction !== undefined && { transaction }),
    ...(from !== undefined && { from: parseMoment(from, 'from').at }),
    ...(until && { to: until.isDate ? new Date(until.at.getTime() + 86_399_999) : until.at }),
  }
}

export const isTransaction = (text: string): boolean => /^\d{1,20}$/.test(text) && BigInt(text) < 2n ** 64n
