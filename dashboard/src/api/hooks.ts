import { type UseQueryResult, useMutation, useQuery } from '@tanstack/react-query'
import { failed, toast } from '../parts/toast.tsx'
import { dataCore, get, queries, send } from './client.ts'
import { session } from './session.ts'

type Query = Record<string, unknown>

/** What an address answers, read again when something says that it changed. `exact`: values as the database wrote them. */
export function useApi<T>(
  path: string | null,
  query: Query = {},
  options: { every?: number; fresh?: number; exact?: boolean } = {},
): UseQueryResult<T> {
  const { id } = session.use()
  return useQuery<T>({
    queryKey: [path, query, id],
    queryFn: ({ signal }) =>
      options.exact
        ? send<T>('GET', path ?? '', { query }, { signal }, dataCore)
        : get<T>(path ?? '', query, { signal }),
    // A copy of a value would no longer know what it was read from.
    structuralSharing: !options.exact,
    enabled: path !== null,
    ...(options.every && { refetchInterval: options.every }),
    ...(options.fresh !== undefined && { staleTime: options.fresh }),
    placeholderData: (before) => before,
  })
}

/** Reads anew whatever begins with one of these addresses. */
export const changed = (...paths: string[]): Promise<void> =>
  queries.invalidateQueries({
    predicate: ({ queryKey: [path] }) => typeof path === 'string' && paths.some((start) => path.startsWith(start)),
  })

type Action<Args, Result> = {
  run(args: Args): void
  runAsync(args: Args): Promise<Result>
  busy: boolean
  error: unknown
  reset(): void
}

/** Something that a button does: what it changed is read anew, a failure is said in a line. */
export function useAction<Args = void, Result = unknown>(
  work: (args: Args) => Promise<Result>,
  options: { done?: string | ((result: Result, args: Args) => string); changes?: string[]; quiet?: boolean } = {},
): Action<Args, Result> {
  const mutation = useMutation<Result, Error, Args>({
    mutationFn: work,
    async onSuccess(result, args) {
      if (options.changes) await changed(...options.changes)
      const text = typeof options.done === 'function' ? options.done(result, args) : options.done
      if (text) toast(text)
    },
    onError(error) {
      if (!options.quiet) failed(error)
    },
  })
  return {
    run: (args) => mutation.mutate(args),
    runAsync: (args) => mutation.mutateAsync(args),
    busy: mutation.isPending,
    error: mutation.error,
    reset: mutation.reset,
  }
}
