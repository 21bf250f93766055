declare module '*?worker' {
  /** The address of the script. */
  const address: string
  export default address
}

declare module '*/docs/errors.md' {
  /** The codes of failures, as the tables of that page have them. */
  const reference: readonly { group: string; error: string; status: number; when: string }[]
  export default reference
}
