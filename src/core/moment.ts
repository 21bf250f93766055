import { badRequest } from './errors.ts'

const DATE = /^\d{4}-\d\d-\d\d$/
// RFC 3339 section 5.6; a `+` that was not percent-encoded arrives as a space.
const TIME = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d(?:\.\d+)?)(?:[Zz]|([+ -])(\d\d:\d\d))$/

/** A time or date of a query parameter; anything else is 400 `invalid <name>`. */
export function parseMoment(text: string, name: string): { at: Date; isDate: boolean } {
  const isDate = DATE.test(text)
  const [, date = text, time = '00:00:00', sign, offset] = TIME.exec(text) ?? []
  if (!isDate && time === '00:00:00' && date === text) throw badRequest(`invalid ${name}`)
  const zone = offset === undefined ? 'Z' : `${sign === ' ' ? '+' : sign}${offset}`
  const at = new Date(`${date}T${time}${zone}`)
  // Date rolls 31 February over into March; such a day does not exist.
  const isReal = new Date(`${date}T00:00:00Z`).toJSON()?.startsWith(date) ?? false
  if (Number.isNaN(at.getTime()) || !isReal) throw badRequest(`invalid ${name}`)
  return { at, isDate }
}
