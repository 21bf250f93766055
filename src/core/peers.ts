/**
 * Registers what this process answers about `kind`, and returns the function that asks every process of this server.
 * A server of one process asks itself; a worker asks the others through its parent.
 */
export type Peers = <T>(kind: string, own: () => T) => () => Promise<T[]>

export const NO_PEERS: Peers = (_kind, own) => async () => [own()]
