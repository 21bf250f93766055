import { ApiError } from '../../api/client.ts'

/** What a server does not have yet is said, never a dead end. */
export const isMissing = (error: unknown): boolean => error instanceof ApiError && error.status === 404
