/** Test files by the name of the process that runs them. */
export type Batches = ReadonlyMap<string, readonly string[]>

/** The batch of tests without server, database or child process. */
export const PURE = 'pure'
const isPure = (text: string): boolean =>
  !/from '([^']*\/(kit|fakes)\/|\.\/(cluster|proxy)|node:(child_process|http|net)')/.test(text)

/** Tests of a server as it is, or of one they spawn, may share a process; those that kill, measure or change theirs run alone. */
const isSharedFolder = (file: string): boolean =>
  /^(src\/(app|db|features|http)|client\/test|test\/(abuse|journeys))\//.test(file) &&
  !/hostile|browser|page|\/realtime\/.*abuse/.test(file)
const CHANGES_PROCESS =
  /startBrowser|startPrivateCluster|\bmock\b|assign\(process\.env|process\.(kill|memoryUsage|on)\(/
const mayShare = (file: string, text: string): boolean => isSharedFolder(file) && !CHANGES_PROCESS.test(text)

/** Tests in a browser share one, by where they are; in a folder `long` each has its own. */
const USES_BROWSER = /\b(startBrowser|openDashboard)\b/
const OWN_PROCESS = /spawnServer|child_process|\bprocess\.(?!env)|\bmock\b/
const browserOf = (file: string, text: string): string | undefined => {
  if (!USES_BROWSER.test(text) || /\/long\/|\.abuse\./.test(file) || OWN_PROCESS.test(text)) return undefined
  return file.startsWith('dashboard/') ? 'dashboard/browser' : 'src/browser'
}

/** Test files per process. They share one because loading and warming up the server takes more than half a second. */
const LARGEST = 7

export function batchesOf(texts: ReadonlyMap<string, string>): Batches {
  const batches = new Map<string, string[]>()
  const add = (name: string, file: string) => batches.set(name, [...(batches.get(name) ?? []), file])
  const neighbours = new Map<string, string[]>()
  for (const [file, text] of texts) {
    const browser = browserOf(file, text)
    if (isPure(text)) add(PURE, file)
    else if (browser !== undefined) add(browser, file)
    else if (!mayShare(file, text)) add(file.replace(/\.ts$/, ''), file)
    else {
      const folder = file
        .split('/')
        .slice(0, /^src\/(db|features)\//.test(file) ? 3 : 2)
        .join('/')
      neighbours.set(folder, [...(neighbours.get(folder) ?? []), file])
    }
  }
  const alone = [...neighbours].filter(([, files]) => files.length === 1)
  for (const [folder] of alone) neighbours.delete(folder)
  if (alone.length > 0)
    neighbours.set(
      'src/others',
      alone.flatMap(([, files]) => files),
    )
  for (const [folder, files] of neighbours) {
    const count = Math.ceil(files.length / LARGEST)
    for (const [i, file] of files.entries()) add(`${folder}-${(i % count) + 1}`, file)
  }
  return batches
}
