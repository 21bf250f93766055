export const root: string
export function log(line: string): void
export function fail(line: string): never
export function ensureInstalled(options: { dev: boolean }): void
