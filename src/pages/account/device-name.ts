const BROWSERS = { 'Edg/': 'Edge', 'OPR/': 'Opera', 'Firefox/': 'Firefox', 'Chrome/': 'Chrome', 'Safari/': 'Safari' }
const SYSTEMS = ['Android', 'iPhone', 'iPad', 'Windows', 'Mac', 'Linux']

/** A readable browser and system name from a User-Agent header. */
export function deviceName(userAgent: string): string {
  const browser = Object.entries(BROWSERS).find(([mark]) => userAgent.includes(mark))?.[1]
  const system = SYSTEMS.find((name) => userAgent.includes(name))
  return [browser, system].filter(Boolean).join(' on ') || userAgent.slice(0, 60) || 'Unknown device'
}
