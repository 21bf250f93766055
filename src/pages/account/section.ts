/** A section of the account page; `fill` loads its content from the server. */
export type Section = { node: HTMLElement; fill(): Promise<void> }

export const formatTime = (time: string): string =>
  new Date(time).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })
