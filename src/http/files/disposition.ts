/** `Content-Disposition: attachment` with a name in any script (RFC 6266), and an ASCII name for old clients. */
export function attachment(name: string): string {
  const file = name.slice(name.lastIndexOf('/') + 1)
  const plain = file.replace(/[^\x20-\x7e]/gu, '_').replace(/["\\%]/g, '_')
  return plain === file
    ? `attachment; filename="${plain}"`
    : `attachment; filename="${plain}"; filename*=UTF-8''${extended(file)}`
}

/** RFC 8187 §3.2.1 forbids a few characters that encodeURIComponent leaves. */
const extended = (text: string): string =>
  encodeURIComponent(text).replace(/['()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
