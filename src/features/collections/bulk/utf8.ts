import { isAscii, isUtf8 } from 'node:buffer'
import { type AppError, badRequest } from '../../../core/errors.ts'

/** UTF-8 in pieces. Node's TextDecoder makes two bytes of each character of a piece, this one where there is need. */
export class Utf8 {
  /** The beginning of a character. */
  #rest: Buffer = Buffer.alloc(0)

  read(piece: Buffer): string {
    const bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, piece]) : piece
    const end = wholeCharacters(bytes)
    const whole = bytes.subarray(0, end)
    this.#rest = bytes.subarray(end)
    if (isAscii(whole)) return whole.toString('latin1')
    if (!isUtf8(whole)) throw notUtf8()
    return whole.toString('utf8')
  }

  end(): void {
    if (this.#rest.length > 0) throw notUtf8()
  }
}

const notUtf8 = (): AppError => badRequest('request body must be UTF-8', 'invalid_body')

/** Where the last character ends that is all there; of bytes that are no UTF-8, anywhere (RFC 3629 §3). */
function wholeCharacters(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] as number
    if (byte < 0x80) break
    if (byte < 0xc0) continue
    const length = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4
    return length > back ? bytes.length - back : bytes.length
  }
  return bytes.length
}
