/** One run of a job, as its handler sees it. */
export type JobRun = {
  readonly id: string
  /** As whoever queued the job wrote it. */
  readonly payload: Readonly<Record<string, unknown>>
  /** 1 for the first. */
  readonly attempt: number
  /** Aborted when the server stops, the lease is lost, or the job took too long. */
  readonly signal: AbortSignal
  /** Lines and progress (0 to 1) can be read while the job runs. */
  log(line: string): void
  progress(done: number): void
}

/** Runs at least once; a throw is a failed attempt. Two runs of one job can follow each other, so it must bear repetition. */
export interface JobHandler {
  (run: JobRun): Promise<void>
  /** What cannot be taken back, such as a message under way, is let finish when the server stops. */
  readonly finishes?: true
}
