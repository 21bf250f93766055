import { readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import type pg from 'pg'
import type { Config } from '../../config/config.ts'
import { base64Bytes, wholeIn } from '../../identity/imported-hash.ts'
import { exclusively } from '../adopt/exclusive.ts'
import { ManyNotes } from '../adopt/notes.ts'
import { type Plan, printPlan } from '../adopt/plan.ts'
import { type Context, UsageError } from '../command/command.ts'
import { Progress } from '../files/progress.ts'
import { bringBatch, type ImportCounts, importSource } from './accounts.ts'
import { entriesOf } from './entries.ts'
import { FIREBASE_COLUMNS, type Format, personOf, USER_FORMATS } from './formats.ts'
import type { FirebaseParameters } from './hashes.ts'
import type { Loss, Person } from './person.ts'
import { SeenTexts } from './seen.ts'

const BATCH_PEOPLE = 500
const BATCH_BYTES = 4 * 2 ** 20

type Source = { file: string; format: Format; firebase: FirebaseParameters | undefined }

/** `svc users import <file> --format …`: prints what would come; `--apply` brings it, and can be run again. */
export async function importUsers(context: Context): Promise<number> {
  const [file = ''] = context.args
  const format = USER_FORMATS.find((one) => one === context.flag('format'))
  if (!format) throw new UsageError(context.usage)
  const isApplied = context.flag('apply') === true
  const source: Source = { file, format, firebase: format === 'firebase' ? firebaseParameters(context) : undefined }
  const { config } = context.config()
  // Everything is read before anything is written: a broken file changes nothing.
  const { plan, notes } = await planOf(source, isApplied)
  if (isApplied) {
    if (format === 'firebase' && !source.firebase && (plan.users.by_credential['unknown'] ?? 0) > 0)
      throw new UsageError(
        'the file has passwords, which need the hash parameters of the project: --hash-key-file or SVC_ADOPT_HASH_KEY, --salt-separator, --rounds, --mem-cost',
      )
    plan.done = await apply(config, source, plan.users.total, notes)
  }
  plan.notes = notes.list()
  if (context.json) context.print(JSON.stringify(plan))
  else printPlan(plan, context.print)
  return 0
}

/** By the names of Firebase's own command line. */
function firebaseParameters(context: Context): FirebaseParameters | undefined {
  const text = (name: string): string | undefined => {
    const value = context.flag(name)
    return typeof value === 'string' ? value : undefined
  }
  const file = text('hash-key-file')
  const given = text('hash-key')
  if (given !== undefined)
    process.stderr.write(
      'warning: a key on the command line is seen by every process of this machine; --hash-key-file or SVC_ADOPT_HASH_KEY is not\n',
    )
  const key = (given ?? (file === undefined ? process.env['SVC_ADOPT_HASH_KEY'] : readFileSync(file, 'utf8')))?.trim()
  const saltSeparator = text('salt-separator') ?? 'Bw=='
  const rounds = wholeIn(text('rounds') ?? '8', 1, 8)
  const memCost = wholeIn(text('mem-cost') ?? '14', 1, 14)
  if (rounds === undefined) throw new UsageError('--rounds is a number from 1 to 8')
  if (memCost === undefined) throw new UsageError('--mem-cost is a number from 1 to 14')
  if (base64Bytes(saltSeparator) === undefined) throw new UsageError('--salt-separator is base64')
  if (key === undefined || key === '') return undefined
  const length = base64Bytes(key)?.length ?? 0
  if (length < 16 || length > 128) throw new UsageError('the hash key is base64 of 16 to 128 bytes')
  return { key, saltSeparator, rounds, memCost }
}

/** Users of the file; of those with one address or id the first. */
async function* peopleOf(source: Source, notes: ManyNotes, heard: (bytes: number) => void): AsyncGenerator<Person> {
  const { file, format, firebase } = source
  const seen = new SeenTexts()
  const header = format === 'firebase' ? FIREBASE_COLUMNS : undefined
  for await (const { number, fields } of entriesOf(file, { header, heard })) {
    const person = personOf(format, fields, firebase)
    if (!person) notes.add('skipped', `user ${number}`, 'has neither an id nor an address that is valid')
    else if (!seen.add(`key ${person.key}`)) notes.add('skipped', person.key, 'is in the file before, with the same id')
    else if (person.email !== null && !seen.add(`email ${person.email}`))
      notes.add('skipped', `${person.email} (${person.key})`, 'is in the file before, with the same address')
    else if (person.phone !== null && !seen.add(`phone ${person.phone}`)) {
      notes.add('changed', `${person.phone} (${person.key})`, 'is in the file before: comes without the number')
      yield { ...person, phone: null }
    } else yield person
  }
}

const LOSSES: Readonly<Record<Loss, string>> = {
  'second factor': 'had a second factor, which does not come along: a password alone signs in until another is added',
  address: 'has an address that no mail could reach: it comes without',
  phone: 'has a phone number that is none: it comes without',
  metadata: 'has metadata of more than 16 KB or 32 levels: it comes without',
  'user name': 'signs in by a user name and has no address: it cannot sign in here',
}

async function planOf(source: Source, isApplied: boolean): Promise<{ plan: Plan; notes: ManyNotes }> {
  const notes = new ManyNotes()
  const kinds: Record<string, number> = Object.create(null)
  let total = 0
  for await (const person of peopleOf(source, notes, () => {})) {
    total++
    const kind = kindOf(person)
    kinds[kind] = (kinds[kind] ?? 0) + 1
    for (const loss of person.lost) notes.add('warning', person.email ?? person.key, LOSSES[loss])
    if (kind === 'unknown')
      notes.add(
        'changed',
        person.email ?? person.key,
        'has a password that cannot be checked here: a sign-in mails a link to set one',
      )
  }
  if (total === 0) throw new Error(`${source.file} has no users of the format ${source.format}`)
  const plan: Plan = {
    source: `${source.format} ${resolve(source.file)}`,
    apply: isApplied,
    tables: [],
    policies: [],
    users: { total, by_credential: { ...kinds } },
    files: { count: 0, bytes: 0 },
    notes: [],
  }
  return { plan, notes }
}

function kindOf({ credential, identities, phone, isAnonymous }: Person): string {
  if (credential) return credential.kind
  if (identities.length > 0) return 'external'
  if (phone !== null) return 'phone'
  return isAnonymous ? 'anonymous' : 'none'
}

const apply = (config: Config, source: Source, total: number, notes: ManyNotes): Promise<Record<string, number>> =>
  exclusively(
    config,
    async () => {},
    (client) => bring(client, source, total, notes),
  )

async function bring(
  client: pg.Client,
  source: Source,
  total: number,
  notes: ManyNotes,
): Promise<Record<string, number>> {
  const progress = new Progress(statSync(source.file).size, 1)
  const done: ImportCounts = { users: 0, joined: 0 }
  let [batch, bytes, read]: [Person[], number, number] = [[], 0, 0]
  const flush = async (): Promise<void> => {
    const { users, joined } = await bringBatch(client, source.format, batch, notes)
    done.users += users
    done.joined += joined
    ;[batch, bytes] = [[], 0]
  }
  // What the plan said of the file is not said twice.
  for await (const person of peopleOf(source, new ManyNotes(), (count) => progress.add(count))) {
    batch.push(person)
    read++
    bytes += person.metadata.length + person.appMetadata.length + 500
    if (batch.length >= BATCH_PEOPLE || bytes >= BATCH_BYTES) await flush()
  }
  if (batch.length > 0) await flush()
  progress.fileDone()
  progress.end()
  const { rows } = await client.query<{ count: string }>(
    `select count(*) from svc.adopted where source = $1 and kind = 'user'`,
    [importSource(source.format)],
  )
  if (read !== total || Number(rows[0]?.count) < total)
    throw new Error(`the file had ${total} users, then ${read}, and ${rows[0]?.count} came: run this again`)
  return { ...done, before: total - done.users - done.joined }
}
