/** A handler throws this to set the delay itself, e.g. from a Retry-After header. */
export class RetryIn extends Error {
  readonly seconds: number
  constructor(seconds: number, message: string) {
    super(message)
    this.seconds = seconds
  }
}

/** A handler throws this when a retry cannot help: the item is dead at once. */
export class GiveUp extends Error {}
