import { badRequest } from '../../core/errors.ts'
import { hasUnprintable } from '../../core/unprintable.ts'

const MAX_NAME = 64
/** Full stops of ASCII and of ideographs; others are compatible with one of them. */
const ADDRESS =
  /:\/\/|\b(?:https?|ftp|mailto):|\bwww[.。]|[\p{L}\p{N}\p{So}_-][.。]\p{L}{2,}(?![\p{L}\p{N}])|\d+(?:[.。]\d+){3}/iu

/** Names are the subjects of mails to strangers: they carry nothing that a mail program makes a link of. */
export function organizationName(given: string): string {
  const name = given.normalize('NFC').trim()
  if (name === '') throw badRequest('name is required')
  if ([...name].length > MAX_NAME) throw badRequest(`name must be at most ${MAX_NAME} characters`)
  if (hasUnprintable(name) || ADDRESS.test(asTyped(name)))
    throw badRequest('name must not contain addresses, such as example.com, or control characters')
  return name
}

/** As a resolver of names reads it: wide letters are letters, and marks do not tell labels apart. */
const asTyped = (name: string): string =>
  name.normalize('NFKC').replace(/[\p{M}\p{Default_Ignorable_Code_Point}]/gu, '')
