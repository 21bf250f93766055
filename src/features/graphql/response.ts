/** The whole response as JSON text, in pieces where it is long; `wrote`: data may have been written. */
export type GraphqlResult = { status: number; json: string | readonly Buffer[]; wrote: boolean }

/** The response as one text. */
export const responseText = ({ json }: GraphqlResult): string =>
  typeof json === 'string' ? json : Buffer.concat(json).toString()
