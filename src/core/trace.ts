import { currentTiming, Timing } from './timing.ts'

/** A request as telemetry sees it, while it is under way. */
export type RequestSpan = {
  /** As `OutgoingSpan` has it. */
  readonly traceparent: string
  /** A flight begins; answers what to call at its end. */
  flight(name: string): () => void
  /** A call to elsewhere on its behalf. */
  outgoing(method: string, url: string): OutgoingSpan
  end(status: number): void
}

export type OutgoingSpan = {
  /** W3C Trace Context, for the header of that name. */
  readonly traceparent: string
  /** Undefined: there was no answer. */
  end(status: number | undefined): void
}

export interface Tracer {
  request(about: { method: string; route: string; requestId: string; traceparent: string | undefined }): RequestSpan
  /** A call of the server itself, such as a webhook. `cause`: the traceparent of what caused it. */
  outgoing(method: string, url: string, cause: string | undefined): OutgoingSpan
}

/** The stages of a request that is traced. */
export class TracedTiming extends Timing {
  readonly span: RequestSpan

  constructor(startedAt: number, span: RequestSpan) {
    super(startedAt)
    this.span = span
  }

  override startDbWait(name?: () => string): () => void {
    const [waited, flown] = [super.startDbWait(), this.span.flight(name?.() ?? 'flight')]
    return () => {
      waited()
      flown()
    }
  }
}

let tracer: Tracer | undefined

/** Set while a server with telemetry runs in this process. */
export function setTracer(next: Tracer | undefined): void {
  tracer = next
}

/** Undefined without telemetry. */
export function traceOutgoing(method: string, url: string, cause?: string): OutgoingSpan | undefined {
  if (tracer === undefined) return undefined
  const timing = currentTiming()
  return timing instanceof TracedTiming ? timing.span.outgoing(method, url) : tracer.outgoing(method, url, cause)
}

/** The span of the request that is served, '' outside of one; undefined without telemetry. */
export function currentTraceparent(): string | undefined {
  if (tracer === undefined) return undefined
  const timing = currentTiming()
  return timing instanceof TracedTiming ? timing.span.traceparent : ''
}
