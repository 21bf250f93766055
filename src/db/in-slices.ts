/** Calls what removes at most `size` things until it finds fewer; resolves to how many there were. */
export async function inSlices(size: number, remove: () => Promise<number>): Promise<number> {
  let total = 0
  for (let slice = size; slice >= size; total += slice) slice = await remove()
  return total
}
