/**
 * What every process of this server says about itself. A server of one process asks itself; one of several workers is
 * asked through whichever of them got the request.
 */
export type Census = <T>(kind: string, own: () => T) => () => Promise<T[]>

export const ALONE: Census = (_kind, own) => async () => [own()]
