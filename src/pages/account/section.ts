/** A part of the account page: what it shows, and how that is read from the server. */
export type Section = { node: HTMLElement; fill(): Promise<void> }

export const formatTime = (time: string): string =>
  new Date(time).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })
