export function bundleDashboard(outdir: string): Promise<void>
export function watchDashboard(outdir: string, onBuilt: () => void): Promise<() => Promise<void>>
