const LONG_NUMBER = /\d{16}/
const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]{15,}/g

/** As JSON.parse; a number that a double cannot hold becomes its text, so that no digit is lost. */
export function parseKeepingDigits(text: string): unknown {
  return JSON.parse(LONG_NUMBER.test(text) ? text.replace(STRING_OR_NUMBER, kept) : text)
}

function kept(part: string): string {
  if (part.startsWith('"')) return part
  const digits = part
    .replace(/[eE].*$/, '')
    .replace(/\D/g, '')
    .replace(/^0+/, '')
  const isHeld = /^-?\d+$/.test(part) ? Number.isSafeInteger(Number(part)) : digits.length <= 17
  return isHeld ? part : JSON.stringify(part)
}
