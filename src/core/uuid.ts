import { badRequest } from './errors.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export const isUuid = (text: string): boolean => UUID.test(text)

/** A path parameter that must be a UUID; `thing` is the noun of the error message. */
export function uuidParam(text: string | undefined, thing: string): string {
  if (text === undefined || !isUuid(text)) throw badRequest(`invalid ${thing} id format`)
  return text.toLowerCase()
}
