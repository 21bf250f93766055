/** A JSON body without the `doc_url` of failures, which says nothing that `error` does not; a test of its own compares it. */
export function parsed(text: string): unknown {
  const body: unknown = JSON.parse(text)
  if (typeof body !== 'object' || body === null || !('doc_url' in body)) return body
  const { doc_url: _, ...rest } = body
  return rest
}
