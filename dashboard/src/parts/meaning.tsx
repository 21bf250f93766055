import { ApiError } from '../api/client.ts'

/** To the line of the reference about a failure, beside what one was doing. */
export const Meaning = ({ error }: { error: unknown }) =>
  error instanceof ApiError && error.error ? (
    <a className="meaning" href={`/admin/api#${error.error}`} target="_blank" rel="noreferrer">
      What does this mean?
    </a>
  ) : null
