/** RFC 4648 §5 without padding, in its canonical encoding. */
export const isBase64Url = (text: unknown, maxBytes: number): text is string =>
  typeof text === 'string' &&
  text !== '' &&
  text.length <= Math.ceil((maxBytes * 4) / 3) &&
  /^[\w-]+$/.test(text) &&
  Buffer.from(text, 'base64url').toString('base64url') === text
