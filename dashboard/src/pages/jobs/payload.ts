/** What was typed as JSON; nothing is an empty object. */
export const parsed = (value: unknown): unknown => (String(value ?? '').trim() === '' ? {} : JSON.parse(String(value)))
