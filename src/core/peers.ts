/**
 * Registers the value of this process for `kind` and returns a function that collects the values of all processes of this
 * server. A worker reaches the other workers through its parent process.
 */
export type Peers = <T>(kind: string, own: () => T) => () => Promise<T[]>

export const NO_PEERS: Peers = (_kind, own) => async () => [own()]
