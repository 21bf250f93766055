/** A colour of the name; production is red. */
export function environmentColour(name: string): string {
  if (name.toLowerCase() === 'production') return 'light-dark(#c3221a, #ff6b60)'
  let hash = 7
  for (const letter of name) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) % 100_003
  // Away from red, which is production's.
  const hue = 40 + (hash % 280)
  return `light-dark(hsl(${hue} 65% 36%), hsl(${hue} 65% 64%))`
}
