const LONG_NUMBER = /\d{16}/
// A text as a whole would be one match, for which the engine has no room from some MB on; of escapes many are one.
const QUOTE_OR_NUMBER = /"|(?:\\.[^"\\]{0,99}){1,99}|-?\d[\d.eE+-]{15,}/g

/** As JSON.parse; a number that a double cannot hold becomes its text, so that no digit is lost. */
export const parseKeepingDigits = (text: string): unknown =>
  JSON.parse(LONG_NUMBER.test(text) ? replaceLongNumbers(text, keptNumber) : text)

/** Of JSON text, numbers of 16 characters and more. */
export function replaceLongNumbers(text: string, replacement: (number: string) => string): string {
  let isText = false
  return text.replace(QUOTE_OR_NUMBER, (part) => {
    if (part === '"') isText = !isText
    return isText || part === '"' ? part : replacement(part)
  })
}

function keptNumber(part: string): string {
  const digits = part
    .replace(/[eE].*$/, '')
    .replace(/\D/g, '')
    .replace(/^0+/, '')
  const isHeld = /^-?\d+$/.test(part) ? Number.isSafeInteger(Number(part)) : digits.length <= 17
  return isHeld ? part : JSON.stringify(part)
}
