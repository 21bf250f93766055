declare module '*?worker' {
  /** The address of the script. */
  const address: string
  export default address
}
