import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sqlite from 'node-sqlite3-wasm'

type Row = Record<string, string | number | null>
type Made = {
  id: string
  name: string
  type?: 'base' | 'auth' | 'view'
  /** Of a view. */
  query?: string
  fields: Record<string, unknown>[]
  /** By which ids are made, unless as ever. */
  idPattern?: string
  rules?: Record<string, string | null>
  options?: Record<string, unknown>
  indexes?: string[]
  rows?: Row[]
}
const ID = `TEXT PRIMARY KEY DEFAULT ('r'||lower(hex(randomblob(7)))) NOT NULL`
const MOMENT = `TEXT DEFAULT (strftime('%Y-%m-%d %H:%M:%fZ')) NOT NULL`
const SINGLE = `TEXT DEFAULT '' NOT NULL`

/** As PocketBase makes columns: those of several values are JSON, whose affinity in SQLite is that of numbers. */
function columnOf(field: Record<string, unknown>): string {
  const given = { ...(field['options'] as Record<string, unknown> | undefined), ...field }
  const type = String(field['type'])
  if (type === 'number') return 'NUMERIC DEFAULT 0 NOT NULL'
  if (type === 'bool') return 'BOOLEAN DEFAULT FALSE NOT NULL'
  if (type === 'json') return 'JSON DEFAULT NULL'
  if (type === 'geoPoint') return `JSON DEFAULT '{"lon":0,"lat":0}' NOT NULL`
  const many = given['maxSelect']
  const isMultiple = typeof many === 'number' ? many > 1 : type === 'relation' && many === null
  return ['select', 'relation', 'file'].includes(type) && isMultiple ? `JSON DEFAULT '[]' NOT NULL` : SINGLE
}

/** What its interface adds to each field of a kind when it saves a collection. */
const SHAPES: Record<string, Record<string, unknown>> = {
  text: { autogeneratePattern: '', max: 0, min: 0, pattern: '', primaryKey: false },
  editor: { convertURLs: false, maxSize: 0 },
  email: { exceptDomains: null, onlyDomains: null },
  url: { exceptDomains: null, onlyDomains: null },
  number: { max: null, min: null, onlyInt: false },
  date: { max: '', min: '' },
  autodate: { onCreate: false, onUpdate: false },
  select: { maxSelect: 1, values: [] },
  json: { maxSize: 0 },
  relation: { cascadeDelete: false, collectionId: '', maxSelect: 1, minSelect: 0 },
  file: { maxSelect: 1, maxSize: 0, mimeTypes: null, protected: false, thumbs: null },
  password: { cost: 0, max: 0, min: 8, pattern: '' },
}
const OLD_SHAPES: Record<string, Record<string, unknown>> = {
  text: { min: null, max: null, pattern: '' },
  editor: { convertUrls: false },
  number: { min: null, max: null, noDecimal: false },
  json: { maxSize: 2_000_000 },
  file: { mimeTypes: [], thumbs: [], maxSelect: 1, maxSize: 5_242_880, protected: false },
  relation: { collectionId: '', cascadeDelete: false, minSelect: null, maxSelect: 1, displayFields: null },
}

const whole = (field: Record<string, unknown>, isOld: boolean): Record<string, unknown> => {
  const type = String(field['type'])
  const id = `${type}${Buffer.from(String(field['name'])).toString('hex').slice(0, 10)}`
  return isOld
    ? {
        system: false,
        id: id.slice(0, 8),
        required: false,
        presentable: false,
        unique: false,
        ...field,
        options: { ...OLD_SHAPES[type], ...(field['options'] as object | undefined) },
      }
    : { hidden: false, id, presentable: false, required: false, system: false, ...SHAPES[type], ...field }
}

const SYSTEM_COLLECTIONS: readonly [name: string, type: string, columns: string][] = [
  ['_mfas', 'base', `"collectionRef" ${SINGLE}, "recordRef" ${SINGLE}, "method" ${SINGLE}`],
  ['_otps', 'base', `"collectionRef" ${SINGLE}, "recordRef" ${SINGLE}, "password" ${SINGLE}, "sentTo" ${SINGLE}`],
  [
    '_externalAuths',
    'base',
    `"collectionRef" ${SINGLE}, "recordRef" ${SINGLE}, "provider" ${SINGLE}, "providerId" ${SINGLE}`,
  ],
  ['_authOrigins', 'base', `"collectionRef" ${SINGLE}, "recordRef" ${SINGLE}, "fingerprint" ${SINGLE}`],
  [
    '_superusers',
    'auth',
    `"password" ${SINGLE}, "tokenKey" ${SINGLE}, "email" ${SINGLE}, "emailVisibility" BOOLEAN DEFAULT FALSE NOT NULL, "verified" BOOLEAN DEFAULT FALSE NOT NULL`,
  ],
]

/** The tables that a first start makes. Its texts stand in double quotes in places. */
function startUp(db: InstanceType<typeof sqlite.Database>, isOld: boolean): void {
  const dates = `"created" ${MOMENT}, "updated" ${MOMENT}`
  db.exec(
    `CREATE TABLE "_migrations" (file VARCHAR(255) PRIMARY KEY NOT NULL, applied INTEGER NOT NULL);
     INSERT INTO "_migrations" VALUES ('1640988000_init.go', 1717233556000000);
     CREATE TABLE "_collections" ("id" ${isOld ? 'TEXT PRIMARY KEY NOT NULL' : ID}, "system" BOOLEAN DEFAULT FALSE NOT NULL, "type" TEXT DEFAULT "base" NOT NULL,
       "name" TEXT UNIQUE NOT NULL, "${isOld ? 'schema' : 'fields'}" JSON DEFAULT "[]" NOT NULL, "indexes" JSON DEFAULT "[]" NOT NULL, "listRule" TEXT DEFAULT NULL,
       "viewRule" TEXT DEFAULT NULL, "createRule" TEXT DEFAULT NULL, "updateRule" TEXT DEFAULT NULL, "deleteRule" TEXT DEFAULT NULL,
       "options" JSON DEFAULT "{}" NOT NULL, ${dates});
     CREATE TABLE "_params" ("id" ${isOld ? 'TEXT PRIMARY KEY NOT NULL' : ID}${isOld ? ', "key" TEXT UNIQUE NOT NULL' : ''}, "value" JSON DEFAULT NULL, ${dates});`,
  )
  if (isOld)
    db.exec(
      `CREATE TABLE "_admins" ("id" TEXT PRIMARY KEY NOT NULL, "avatar" INTEGER DEFAULT 0 NOT NULL, "email" TEXT UNIQUE NOT NULL, "tokenKey" TEXT UNIQUE NOT NULL,
         "passwordHash" TEXT NOT NULL, "lastResetSentAt" TEXT DEFAULT "" NOT NULL, ${dates});
       CREATE TABLE "_externalAuths" ("id" TEXT PRIMARY KEY NOT NULL, "collectionId" TEXT NOT NULL, "recordId" TEXT NOT NULL, "provider" TEXT NOT NULL,
         "providerId" TEXT NOT NULL, ${dates}, FOREIGN KEY ("collectionId") REFERENCES "_collections" ("id") ON UPDATE CASCADE ON DELETE CASCADE);
       CREATE UNIQUE INDEX _externalAuths_record_provider_idx on "_externalAuths" ("collectionId", "recordId", "provider");`,
    )
  else
    for (const [name, type, columns] of SYSTEM_COLLECTIONS) {
      db.exec(`CREATE TABLE "${name}" ("id" ${ID}, ${columns}, "created" ${SINGLE}, "updated" ${SINGLE})`)
      insert(db, '_collections', {
        id: `pbc_${name.length}${name.slice(1, 8)}`,
        system: 1,
        type,
        name,
        fields: '[]',
        indexes: '[]',
        options: type === 'auth' ? '{"authRule":"","passwordAuth":{"enabled":true,"identityFields":["email"]}}' : '{}',
      })
    }
}

/** A data folder by the published layout: of 0.23 and newer (`fields`), or of 0.22 (`schema`). */
export function dataFolder(
  collections: readonly Made[],
  more: {
    layout?: '0.22' | '0.23'
    files?: Record<string, string>
    external?: Row[]
    superusers?: string[]
    walRows?: string
  } = {},
): string {
  const folder = mkdtempSync(join(tmpdir(), 'pb-data-'))
  const file = join(folder, 'making.db')
  const db = new sqlite.Database(file)
  const isOld = more.layout === '0.22'
  db.exec('pragma locking_mode = exclusive; pragma journal_mode = wal')
  startUp(db, isOld)
  for (const [index, email] of (more.superusers ?? []).entries())
    insert(db, isOld ? '_admins' : '_superusers', {
      id: String(index),
      email,
      tokenKey: `key-${index}`,
      [isOld ? 'passwordHash' : 'password']: 'x',
    })
  for (const one of collections) addCollection(db, one, isOld)
  for (const row of more.external ?? []) insert(db, '_externalAuths', row)
  db.exec('pragma wal_checkpoint(truncate)')
  if (more.walRows !== undefined) db.exec(more.walRows)
  // Copied while it is open, as a PocketBase that was killed leaves it.
  for (const end of ['', '-wal']) if (existsSync(file + end)) copyFileSync(file + end, join(folder, `data.db${end}`))
  db.close()
  for (const end of ['', '-wal', '-shm', '-journal', '.lock']) rmSync(file + end, { recursive: true, force: true })
  // What else lies there and is not ours to read.
  for (const name of ['auxiliary.db', 'types.d.ts']) writeFileSync(join(folder, name), 'x')
  mkdirSync(join(folder, 'backups'))
  for (const [name, text] of Object.entries(more.files ?? {})) {
    mkdirSync(join(folder, 'storage', name, '..'), { recursive: true })
    writeFileSync(join(folder, 'storage', name), text)
    writeFileSync(
      join(folder, 'storage', `${name}.attrs`),
      '{"user.cache_control":"","user.content_type":"text/plain","user.metadata":null,"md5":""}',
    )
  }
  return folder
}

function addCollection(db: InstanceType<typeof sqlite.Database>, one: Made, isOld: boolean): void {
  const { rules = {}, type = 'base' } = one
  const authFields = [
    { name: 'password', type: 'password', hidden: true, required: true, system: true },
    {
      name: 'tokenKey',
      type: 'text',
      hidden: true,
      required: true,
      system: true,
      autogeneratePattern: '[a-zA-Z0-9]{50}',
      min: 30,
      max: 60,
    },
    { name: 'email', type: 'email', required: true, system: true },
    { name: 'emailVisibility', type: 'bool', system: true },
    { name: 'verified', type: 'bool', system: true },
  ]
  const idField = {
    ...{ name: 'id', type: 'text', primaryKey: true, required: true, system: true, min: 15, max: 15 },
    ...{ autogeneratePattern: one.idPattern ?? '[a-z0-9]{15}', pattern: '^[a-z0-9]+$' },
  }
  const isAuth = type === 'auth'
  const fields = (isOld ? one.fields : [idField, ...(isAuth ? authFields : []), ...one.fields]).map((field) =>
    whole(field, isOld),
  )
  const own = isOld || !isAuth ? one.fields : [...authFields, ...one.fields]
  const columns = [
    ...own.map((field) => `"${String(field['name'])}" ${columnOf(field)}`),
    ...(isOld && isAuth
      ? [
          `"username" TEXT NOT NULL, "email" TEXT DEFAULT "" NOT NULL, "emailVisibility" BOOLEAN DEFAULT FALSE NOT NULL, "verified" BOOLEAN DEFAULT FALSE NOT NULL`,
          `"tokenKey" TEXT NOT NULL, "passwordHash" TEXT NOT NULL, "lastResetSentAt" TEXT DEFAULT "" NOT NULL, "lastVerificationSentAt" TEXT DEFAULT "" NOT NULL`,
          `"lastLoginAlertSentAt" TEXT DEFAULT "" NOT NULL`,
        ]
      : []),
    ...(isOld ? [`"created" ${MOMENT}, "updated" ${MOMENT}`] : []),
  ]
  const indexes = [
    ...(isAuth && !isOld
      ? [
          `CREATE UNIQUE INDEX \`idx_tokenKey_${one.id}\` ON \`${one.name}\` (\`tokenKey\`)`,
          `CREATE UNIQUE INDEX \`idx_email_${one.id}\` ON \`${one.name}\` (\`email\`) WHERE \`email\` != ''`,
        ]
      : []),
    ...(one.indexes ?? []),
  ]
  const isView = type === 'view'
  if (isView) db.exec(`create view "${one.name}" as ${one.query}`)
  else db.exec(`create table "${one.name}" ("id" ${ID}${columns.map((column) => `, ${column}`).join('')})`)
  for (const index of isView ? [] : indexes) db.exec(index)
  insert(db, '_collections', {
    id: one.id,
    system: 0,
    type,
    name: one.name,
    [isOld ? 'schema' : 'fields']: JSON.stringify(fields),
    indexes: JSON.stringify(indexes),
    ...Object.fromEntries(
      ['list', 'view', 'create', 'update', 'delete'].map((kind) => [`${kind}Rule`, rules[kind] ?? null]),
    ),
    options: JSON.stringify(
      isView
        ? { [isOld ? 'query' : 'viewQuery']: one.query }
        : type === 'auth'
          ? {
              ...(isOld
                ? {
                    allowEmailAuth: true,
                    allowOAuth2Auth: true,
                    allowUsernameAuth: true,
                    exceptEmailDomains: null,
                    manageRule: null,
                  }
                : {
                    authRule: '',
                    manageRule: null,
                    oauth2: {
                      providers: [],
                      mappedFields: { id: '', name: 'name', username: '', avatarURL: 'avatar' },
                      enabled: false,
                    },
                    passwordAuth: { enabled: true, identityFields: ['email'] },
                    mfa: { enabled: false, duration: 1800, rule: '' },
                    otp: { enabled: false, duration: 180, length: 8 },
                  }),
              ...one.options,
            }
          : {},
    ),
  })
  for (const row of one.rows ?? []) insert(db, one.name, row)
}

function insert(db: InstanceType<typeof sqlite.Database>, table: string, row: Row): void {
  const names = Object.keys(row)
  db.run(
    `insert into "${table}" (${names.map((name) => `"${name}"`).join(', ')}) values (${names.map(() => '?').join(', ')})`,
    Object.values(row),
  )
}
