/** A handler throws this to choose the wait itself, e.g. for a Retry-After header. */
export class RetryIn extends Error {
  readonly seconds: number
  constructor(seconds: number, message: string) {
    super(message)
    this.seconds = seconds
  }
}

/** A handler throws this when trying again cannot help: the item is dead at once. */
export class GiveUp extends Error {}
