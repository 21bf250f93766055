/** One run of a job, as its handler sees it. */
export type JobRun = {
  readonly id: string
  /** As it was queued. */
  readonly payload: Readonly<Record<string, unknown>>
  /** 1 for the first. */
  readonly attempt: number
  /** Aborted when the server stops, the lease is lost, or the job took too long. */
  readonly signal: AbortSignal
  /** Lines and progress (0 to 1) are visible while the job runs. */
  log(line: string): void
  progress(done: number): void
}

/** Runs at least once; a throw is a failed attempt. A job can run twice, so it must be idempotent. */
export interface JobHandler {
  (run: JobRun): Promise<void>
  /** The run may finish when the server stops, because its effect (a message being sent) cannot be undone. */
  readonly finishes?: true
  /** Most milliseconds of a run; default an hour. */
  readonly longestMs?: number
}
