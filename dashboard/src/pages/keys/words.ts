export const words = (value: unknown): string[] =>
  String(value ?? '')
    .split(/[\s,]+/)
    .filter(Boolean)
