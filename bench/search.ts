/**
 * npm run bench search [text | nearest] [--quick]
 * Searches through the built server, against SQL written by hand for the very same answer, in
 * turns, 32 at once; and the same searches by a user whose policy leaves one row in a hundred.
 */
const parts: Readonly<Record<string, () => Promise<unknown>>> = {
  text: () => import('./search/text.ts'),
  nearest: () => import('./search/nearest.ts'),
}
const named = process.argv.slice(3).filter((word) => word in parts)
for (const part of named.length > 0 ? named : Object.keys(parts)) await parts[part]?.()
