const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']

function fieldOf(text: string, low: number, high: number, names: readonly string[], base: number): Set<number> {
  const found = new Set<number>()
  const value = (word: string): number => {
    const named = names.indexOf(word.toLowerCase())
    return named >= 0 ? named + base : Number(word)
  }
  for (const part of text.split(',')) {
    const [range = '*', step = '1'] = part.split('/')
    const [from, to] = range === '*' ? [low, high] : range.split('-').map(value)
    const end = to ?? (part.includes('/') ? high : from)
    for (let at = from ?? low; at <= (end ?? high); at += Number(step) || 1) found.add(at)
  }
  return found
}

/** The wall clock of a zone at an instant. */
function wall(at: number, zone: string): { minute: number; hour: number; day: number; month: number; weekday: number } {
  const parts = new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    hourCycle: 'h23',
    minute: 'numeric',
    hour: 'numeric',
    day: 'numeric',
    month: 'numeric',
    weekday: 'short',
  }).formatToParts(at)
  const get = (type: string): string => parts.find((part) => part.type === type)?.value ?? ''
  return {
    minute: Number(get('minute')),
    hour: Number(get('hour')),
    day: Number(get('day')),
    month: Number(get('month')),
    weekday: DAYS.indexOf(get('weekday').toLowerCase()),
  }
}

/** The next times of a cron expression with the five POSIX fields, as far as they are within two years. */
export function nextTimes(expression: string, zone: string, count: number, from = Date.now()): Date[] {
  const [minutes = '*', hours = '*', days = '*', months = '*', weekdays = '*'] = expression.trim().split(/\s+/)
  const minute = fieldOf(minutes, 0, 59, [], 0)
  const hour = fieldOf(hours, 0, 23, [], 0)
  const day = fieldOf(days, 1, 31, [], 0)
  const month = fieldOf(months, 1, 12, MONTHS, 1)
  const weekday = fieldOf(weekdays, 0, 7, DAYS, 0)
  if (weekday.has(7)) weekday.add(0)
  const found: Date[] = []
  const HOUR = 3_600_000
  for (let at = Math.ceil((from + 1) / 60_000) * 60_000; found.length < count && at < from + 730 * 24 * HOUR; ) {
    const now = wall(at, zone)
    const byDay = day.has(now.day)
    const byWeekday = weekday.has(now.weekday)
    const isDay = days === '*' ? byWeekday : weekdays === '*' ? byDay : byDay || byWeekday
    if (!month.has(now.month) || !isDay || !hour.has(now.hour)) {
      at += (60 - now.minute) * 60_000
      continue
    }
    if (minute.has(now.minute)) found.push(new Date(at))
    at += 60_000
  }
  return found
}
