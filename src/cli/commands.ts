import { type Command, UsageError } from './command/command.ts'

/** Each command is loaded when it runs, so that `svc version` does not load the server. */
const byName: Readonly<Record<string, Command>> = {
  start: {
    usage: 'start [--detach]',
    summary: 'run the server, in the background with --detach',
    examples: ['svc start --port 9000', 'svc start --detach'],
    about: { detach: 'run in the background; the log goes to <data_dir>/svc.log' },
    flags: { detach: 'boolean' },
    run: async (context) => {
      if (context.flag('detach')) return (await import('./detach.ts')).detach(context)
      return (await import('./start.ts')).start(context)
    },
  },
  stop: {
    usage: 'stop',
    summary: 'stop the server of this data directory',
    examples: ['svc stop', 'svc stop --data-dir /srv/savanna'],
    run: async (context) => (await import('./stop.ts')).stop(context),
  },
  status: {
    usage: 'status',
    summary: 'pid, URL and health; exit code 1 when it is down',
    examples: ['svc status', 'svc status --json'],
    usesServer: true,
    run: async (context) => (await import('./status.ts')).status(context),
  },
  doctor: {
    usage: 'doctor',
    summary: 'look at configuration, database and machine; exit code 1 when something is found',
    run: async (context) => (await import('./doctor/doctor.ts')).doctor(context),
  },
  extensions: {
    usage: 'extensions',
    summary: 'extensions of PostgreSQL: what this database has, could have, and what each is for here',
    run: async (context) => (await import('./extensions/extensions.ts')).listExtensions(context),
  },
  'extensions add': {
    usage: 'extensions add <name> [--from <file.deb or folder>]',
    summary: 'add an extension such as vector to the embedded PostgreSQL',
    flags: { from: 'string' },
    run: async (context) => (await import('./extensions/extensions.ts')).addExtension(context),
  },
  sql: {
    usage: 'sql "<query>"',
    summary: 'run SQL through the server; - reads it from stdin',
    examples: ["svc sql 'select count(*) from svc.users'", 'svc sql - < report.sql'],
    usesServer: true,
    run: async (context) => (await import('./sql.ts')).sqlCommand(context),
  },
  history: {
    usage: 'history <table> <id>',
    summary: 'the changes of a row, newest first',
    examples: ['svc history orders 42', 'svc history orders 42 --json'],
    run: async (context) => (await import('./history.ts')).historyCommand(context),
  },
  undo: {
    usage: 'undo --request <id> | --transaction <id> [--dry-run] [--force]',
    summary: 'undo the changes of a request or a transaction, all or none',
    examples: ['svc undo --request 0f3c… --dry-run', 'svc undo --transaction 84211'],
    about: {
      request: 'the X-Request-Id of what is undone',
      transaction: 'the id of a transaction of the change log',
      'dry-run': 'show what would change',
      force: 'also where rows changed since',
    },
    flags: { request: 'string', transaction: 'string', 'dry-run': 'boolean', force: 'boolean' },
    run: async (context) => (await import('./history.ts')).undoCommand(context),
  },
  advise: {
    usage: 'advise',
    summary: 'what would make the database faster or safer, with SQL to apply',
    usesServer: true,
    run: async (context) => (await import('./advise.ts')).adviseCommand(context),
  },
  mcp: {
    usage: 'mcp [--read-only] [--admin]',
    summary: 'connect a local agent over stdio: as you, signed in by the browser; --admin: as the operator',
    flags: { admin: 'boolean', 'read-only': 'boolean' },
    usesServer: true,
    run: async (context) => (await import('./mcp/mcp.ts')).mcpCommand(context),
  },
  'migrate up': {
    usage: 'migrate up',
    summary: 'apply the migrations that are not applied yet',
    examples: ['svc migrate up', 'svc migrate up --database-url postgres://localhost/shop'],
    run: async (context) => (await import('./migrate.ts')).up(context),
  },
  'migrate create': {
    usage: 'migrate create <name>',
    summary: 'make an empty migration file',
    examples: ['svc migrate create add_orders', 'svc migrate create drop_old_prices'],
    run: async (context) => (await import('./migrate.ts')).create(context),
  },
  'migrate status': {
    usage: 'migrate status',
    summary: 'which migrations are applied',
    examples: ['svc migrate status', 'svc migrate status --json'],
    run: async (context) => (await import('./migrate.ts')).migrationStatus(context),
  },
  'admin reset-password': {
    usage: 'admin reset-password',
    summary: 'make a new admin password; all admin tokens end',
    examples: ['svc admin reset-password', 'svc admin reset-password --data-dir /srv/savanna'],
    run: async (context) => (await import('./reset-password.ts')).resetPassword(context),
  },
  'admin add': {
    usage: 'admin add <address> [--role <role>] [--name <name>]',
    summary: 'add an administrator: owner, operator or viewer (default)',
    examples: ['svc admin add ann@example.com --role operator', "svc admin add bo@example.com --name 'Bo Berg'"],
    about: { role: 'owner, operator or viewer', name: 'default: the address' },
    flags: { role: 'string', name: 'string' },
    usesServer: true,
    run: async (context) => (await import('./admins.ts')).addAdmin(context),
  },
  'admin remove': {
    usage: 'admin remove <id or address>',
    summary: 'remove an administrator; the tokens end',
    examples: ['svc admin remove ann@example.com', 'svc admin remove 5b1f0c1e-8d0f-4a55-9a3c-1d5c0e1b2a3f'],
    usesServer: true,
    run: async (context) => (await import('./admins.ts')).removeAdmin(context),
  },
  'admin list': {
    usage: 'admin list',
    summary: 'administrators and their roles',
    examples: ['svc admin list', 'svc admin list --json'],
    usesServer: true,
    run: async (context) => (await import('./admins.ts')).listAdmins(context),
  },
  users: {
    usage: 'users <action> [<id or address>]',
    summary: 'list, show, create, invite, disable, enable, password, sessions, end-sessions, export, delete users',
    examples: ['svc users list', 'svc users disable ann@example.com'],
    usesServer: true,
    run: async (context) => (await import('./users.ts')).users(context),
  },
  'secrets rotate': {
    examples: ['svc secrets rotate signing-key', 'svc secrets rotate signing-key --compromised'],
    about: { compromised: 'the old key verifies nothing from now on' },
    usage: 'secrets rotate signing-key [--compromised]',
    summary: 'make a new key for access tokens; tokens of the old one stay good unless it is compromised',
    flags: { compromised: 'boolean' },
    usesServer: true,
    run: async (context) => (await import('./rotate-secrets.ts')).rotateSecrets(context),
  },
  'secrets reencrypt': {
    usage: 'secrets reencrypt',
    summary: 'encrypt anew what an old auth.encryption_key encrypted; exit code 1 when something cannot be read',
    examples: ['svc secrets reencrypt', 'svc secrets reencrypt --json'],
    run: async (context) => (await import('./reencrypt.ts')).reencrypt(context),
  },
  cleanup: {
    usage: 'cleanup <name>',
    summary: 'remove what is expired or abandoned; without a name, list what there is',
    examples: ['svc cleanup', 'svc cleanup sessions'],
    run: async (context) => (await import('./cleanup.ts')).cleanup(context),
  },
  backup: {
    examples: ['svc backup --to /srv/backups', 'svc backup --to s3://backups/shop --files'],
    about: { to: 'a folder or s3://bucket/prefix; default: backup.to', files: 'copy files that lie in S3 too' },
    usage: 'backup [--to <folder or s3://…>] [--files]',
    summary: 'take a backup of the database and its files; --files copies files that lie in S3 too',
    flags: { to: 'string', files: 'boolean' },
    run: async (context) => (await import('./backup.ts')).backup(context),
  },
  'backup list': {
    examples: ['svc backup list', 'svc backup list --json'],
    about: { to: 'default: backup.to' },
    usage: 'backup list [--to <target>]',
    summary: 'backups and whether they are good',
    flags: { to: 'string' },
    run: async (context) => (await import('./backup.ts')).backupList(context),
  },
  'backup verify': {
    examples: ['svc backup verify 20260101T000000Z', 'svc backup verify 20260101T000000Z --to /srv/backups'],
    about: { to: 'default: backup.to' },
    usage: 'backup verify <id> [--to <target>]',
    summary: 'restore a backup into a scratch directory and check it; exit code 1 unless it is good',
    flags: { to: 'string' },
    run: async (context) => (await import('./backup.ts')).backupVerify(context),
  },
  'backup prune': {
    examples: ['svc backup prune', 'svc backup prune --to /srv/backups'],
    about: { to: 'default: backup.to' },
    usage: 'backup prune [--to <target>]',
    summary: 'remove what is in none of the backup.keep newest good backups',
    flags: { to: 'string' },
    run: async (context) => (await import('./backup.ts')).backupPrune(context),
  },
  restore: {
    examples: [
      'svc restore --from /srv/backups --data-dir /srv/restored',
      'svc restore --from s3://backups/shop --at "2026-11-16 12:00:00+00" --data-dir /srv/new --take-over',
    ],
    about: {
      from: 'the folder or s3:// target of the backup',
      at: 'the moment to restore to',
      before: 'the id of the request to stop before',
      'root-secret': 'a file with the root secret, where the backup holds none',
      'take-over': 'make it the server, not a drill',
      'keep-credentials': 'leave sessions and keys as they were at that moment',
    },
    usage: 'restore --from <target> [<id>] [--at <time> | --before <request id>] --data-dir <new>',
    summary: 'restore a backup into an empty data directory, to the end, to a time or to just before a request',
    flags: {
      from: 'string',
      at: 'string',
      before: 'string',
      'root-secret': 'string',
      'take-over': 'boolean',
      'keep-credentials': 'boolean',
    },
    run: async (context) => (await import('./restore.ts')).restore(context),
  },
  'restore take-over': {
    examples: ['svc restore take-over --data-dir /srv/restored', 'svc restore take-over --data-dir /srv/new --json'],
    usage: 'restore take-over --data-dir <dir>',
    summary: 'make a restored server the server: from its next start it sends, removes and backs up again',
    run: async (context) => (await import('./restore.ts')).takeOver(context),
  },
  types: {
    usage: 'types [--out <file>] [--watch]',
    summary: 'write TypeScript types of the tables, enums and functions of the database',
    examples: ['svc types --out database.ts', 'svc types --out database.ts --watch'],
    about: { out: 'default: standard output', watch: 'write again when the schema changes' },
    flags: { out: 'string', watch: 'boolean' },
    usesServer: true,
    run: async (context) => (await import('./typescript/write-types.ts')).writeTypes(context),
  },
  export: {
    usage: 'export <table> [<file>] [--format csv|json|ndjson] [--filter --sort --fields]',
    summary: 'write the rows of a table to a file, or to stdout',
    examples: ['svc export orders orders.csv', 'svc export orders --format ndjson --filter "state=\'open\'"'],
    about: {
      format: 'csv, json or ndjson; default: by the name of the file',
      filter: 'rows to write, as of a list',
      sort: 'as of a list',
      fields: 'columns, separated by commas',
    },
    flags: { format: 'string', filter: 'string', sort: 'string', fields: 'string' },
    usesServer: true,
    run: async (context) => (await import('./files/bulk.ts')).exportTable(context),
  },
  import: {
    usage: 'import <table> <file> [--format] [--on-conflict <columns>] [--dry-run]',
    summary: 'send a CSV, JSON or NDJSON file into a table: all rows or none',
    examples: ['svc import orders orders.csv --dry-run', 'svc import orders orders.ndjson --on-conflict id'],
    about: {
      format: 'csv, json or ndjson; default: by the name of the file',
      'on-conflict': 'columns of a unique key: change the row that is there',
      'dry-run': 'check everything, write nothing',
    },
    flags: { format: 'string', 'on-conflict': 'string', 'dry-run': 'boolean' },
    usesServer: true,
    run: async (context) => (await import('./files/bulk.ts')).importTable(context),
  },
  'rls snapshot': {
    usage: 'rls snapshot [<file>] [--users <a,b>]',
    summary: 'write who may do what with a sample of every table, for version control',
    examples: ['svc rls snapshot', 'svc rls snapshot access.txt --users ann@example.com'],
    about: { users: 'addresses or ids of users to try, separated by commas' },
    flags: { users: 'string' },
    usesServer: true,
    run: async (context) => (await import('./rls.ts')).snapshot(context),
  },
  'rls diff': {
    usage: 'rls diff [<file>]',
    summary: 'what changed since that snapshot; exit code 1 when anything did',
    examples: ['svc rls diff', 'svc rls diff access.txt'],
    usesServer: true,
    run: async (context) => (await import('./rls.ts')).diff(context),
  },
  'sites deploy': {
    usage: 'sites deploy <dir> --site <slug>',
    summary: 'upload what changed in a folder and make it live',
    examples: [
      'svc sites deploy dist --site shop',
      'svc sites deploy public --site docs --url https://api.example.com',
    ],
    about: { site: 'the slug of the site' },
    flags: { site: 'string' },
    usesServer: true,
    run: async (context) => (await import('./files/deploy.ts')).deploy(context),
  },
  'storage ls': {
    usage: 'storage ls <bucket> [<prefix>]',
    summary: 'list files of a bucket',
    examples: ['svc storage ls photos', 'svc storage ls photos 2026/'],
    usesServer: true,
    run: async (context) => (await import('./files/storage.ts')).listFiles(context),
  },
  'storage get': {
    usage: 'storage get <bucket>/<name> [<file>]',
    summary: 'download a file; - writes it to stdout',
    examples: ['svc storage get photos/cat.jpg', 'svc storage get photos/cat.jpg - > cat.jpg'],
    usesServer: true,
    run: async (context) => (await import('./files/storage.ts')).getFile(context),
  },
  'storage put': {
    usage: 'storage put <file> <bucket>[/<name>]',
    summary: 'upload a file',
    examples: ['svc storage put cat.jpg photos', 'svc storage put cat.jpg photos/pets/cat.jpg'],
    usesServer: true,
    run: async (context) => (await import('./files/storage.ts')).putFile(context),
  },
  open: {
    usage: 'open',
    summary: 'open the dashboard in the browser, signed in',
    examples: ['svc open', 'svc open --url https://api.example.com --admin-token …'],
    usesServer: true,
    run: async (context) => (await import('./open.ts')).openDashboard(context),
  },
  completion: {
    usage: 'completion bash|zsh|fish',
    summary: 'print what completes svc in a shell',
    examples: ['source <(svc completion bash)', 'svc completion fish > ~/.config/fish/completions/svc.fish'],
    run: async (context) => {
      const { completionFor, SHELLS } = await import('./command/completion.ts')
      const shell = SHELLS.find((name) => name === context.args[0])
      if (!shell || context.args.length > 1) throw new UsageError('usage: svc completion bash|zsh|fish')
      context.print(completionFor(shell, commands, ['config', 'json', 'help']).trimEnd())
      return 0
    },
  },
  version: {
    usage: 'version',
    summary: 'print the version',
    examples: ['svc version', 'svc version --json'],
    run: async (context) => {
      const { version } = await import('../core/version.ts')
      context.print(context.json ? JSON.stringify({ version }) : version)
      return 0
    },
  },
}

export const commands: ReadonlyMap<string, Command> = new Map(Object.entries(byName))
