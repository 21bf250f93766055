import type { Command } from './command/command.ts'
import type { UserAction } from './users.ts'

type About = Omit<Command, 'run' | 'usage' | 'usesServer'>

const PASSWORD = 'the password comes from SVC_USER_PASSWORD'

const user = (action: UserAction, more: string, about: About): Command => ({
  args: ['id or address'],
  usage: `users ${action}${more}`,
  usesServer: true,
  ...about,
  run: async (context) => (await import('./users.ts')).users(action, context),
})

export const peopleCommands: Readonly<Record<string, Command>> = {
  'admin reset-password': {
    usage: 'admin reset-password',
    summary: 'make a new admin password; all admin tokens end',
    examples: ['svc admin reset-password', 'svc admin reset-password --data-dir /srv/savanna'],
    run: async (context) => (await import('./reset-password.ts')).resetPassword(context),
  },
  'admin add': {
    usage: 'admin add <address> [--role <role>] [--name <name>]',
    args: ['address'],
    summary: 'add an administrator: owner, operator or viewer (default)',
    examples: ['svc admin add ann@example.com --role operator', "svc admin add bo@example.com --name 'Bo Berg'"],
    about: { role: 'owner, operator or viewer', name: 'default: the address' },
    flags: { role: 'string', name: 'string' },
    usesServer: true,
    run: async (context) => (await import('./admins.ts')).addAdmin(context),
  },
  'admin remove': {
    usage: 'admin remove <id or address>',
    args: ['id or address'],
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
  'users list': user('list', ' [--search <part of the address>]', {
    summary: 'users, newest first',
    args: ['search?'],
    examples: ['svc users list', 'svc users list --search @example.com --json'],
    flags: { search: 'string' },
    about: { search: 'those whose address has this in it' },
  }),
  'users show': user('show', ' <id or address>', {
    summary: 'one user, as JSON',
    examples: ['svc users show ann@example.com', 'svc users show 5b1f0c1e-8d0f-4a55-9a3c-1d5c0e1b2a3f'],
  }),
  'users create': user('create', ' <address>', {
    summary: `make a user; ${PASSWORD}, without it the user has none yet`,
    args: ['address'],
    examples: ['SVC_USER_PASSWORD=… svc users create ann@example.com', 'svc users create bo@example.com --json'],
  }),
  'users invite': user('invite', ' <address>', {
    summary: 'make a user who chooses a password by a link in a mail, good once and for seven days',
    args: ['address'],
    examples: ['svc users invite ann@example.com', 'svc users invite bo@example.com --json'],
  }),
  'users disable': user('disable', ' <id or address>', {
    summary: 'end every session, and let no sign-in, key or token count',
    examples: ['svc users disable ann@example.com', 'svc users disable 5b1f0c1e-8d0f-4a55-9a3c-1d5c0e1b2a3f'],
  }),
  'users enable': user('enable', ' <id or address>', {
    summary: 'let a disabled user in again',
    examples: ['svc users enable ann@example.com', 'svc users enable 5b1f0c1e-8d0f-4a55-9a3c-1d5c0e1b2a3f'],
  }),
  'users password': user('password', ' <id or address>', {
    summary: `set a password and end sessions, grants and keys; ${PASSWORD}`,
    examples: [
      'SVC_USER_PASSWORD=… svc users password ann@example.com',
      'SVC_USER_PASSWORD="$(cat password.txt)" svc users password ann@example.com',
    ],
  }),
  'users sessions': user('sessions', ' <id or address>', {
    summary: 'the sessions of a user, as JSON',
    examples: ['svc users sessions ann@example.com', 'svc users sessions 5b1f0c1e-8d0f-4a55-9a3c-1d5c0e1b2a3f'],
  }),
  'users end-sessions': user('end-sessions', ' <id or address>', {
    summary: 'end all sessions of a user',
    examples: ['svc users end-sessions ann@example.com', 'svc users end-sessions 5b1f0c1e-8d0f-4a55-9a3c-1d5c0e1b2a3f'],
  }),
  'users factors': user('factors', ' <id or address>', {
    summary: 'the second factors of a user, as JSON',
    examples: ['svc users factors ann@example.com', 'svc users factors 5b1f0c1e-8d0f-4a55-9a3c-1d5c0e1b2a3f'],
  }),
  'users remove-factor': user('remove-factor', ' <id or address> <factor>', {
    summary: 'remove a lost second factor, by its id; every session ends',
    args: ['id or address', 'factor'],
    examples: [
      'svc users remove-factor ann@example.com 11111111-1111-4111-8111-111111111111',
      'svc users remove-factor ann@example.com 11111111-1111-4111-8111-111111111111 --json',
    ],
  }),
  'users export': user('export', ' <id or address> [<file>]', {
    summary: 'everything the server keeps of a person, without secrets, to a file or to stdout',
    args: ['id or address', 'file?'],
    examples: ['svc users export ann@example.com ann.json', 'svc users export ann@example.com > ann.json'],
  }),
  'users delete': user('delete', ' <id or address>', {
    summary: 'delete a user with sessions, keys, grants and factors',
    examples: ['svc users delete ann@example.com', 'svc users delete 5b1f0c1e-8d0f-4a55-9a3c-1d5c0e1b2a3f'],
  }),
  'users import': {
    usage: 'users import <file> --format firebase|auth0|supabase|clerk|generic [--apply]',
    args: ['file'],
    summary: 'bring users with their passwords from a file of another system; a dry run until --apply',
    examples: [
      'svc users import users.json --format firebase --hash-key-file key.txt',
      'svc users import users.csv --format clerk --apply',
    ],
    flags: {
      format: 'string',
      apply: 'boolean',
      'hash-key': 'string',
      'hash-key-file': 'string',
      'salt-separator': 'string',
      rounds: 'string',
      'mem-cost': 'string',
    },
    about: {
      format: 'firebase, auth0, supabase, clerk or generic',
      apply: 'do it; without, nothing is changed',
      'hash-key': 'Firebase: base64_signer_key; better --hash-key-file or SVC_ADOPT_HASH_KEY',
      'hash-key-file': 'a file that holds the key',
      'salt-separator': 'Firebase: base64_salt_separator; default: Bw==',
      rounds: 'Firebase: rounds; default: 8',
      'mem-cost': 'Firebase: mem_cost; default: 14',
    },
    run: async (context) => (await import('./users-import/import.ts')).importUsers(context),
  },
  'apikeys list': {
    usage: 'apikeys list',
    summary: 'API keys of all users, newest first, revoked ones too',
    examples: ['svc apikeys list', 'svc apikeys list --json'],
    usesServer: true,
    run: async (context) => (await import('./api-keys.ts')).listApiKeys(context),
  },
  'apikeys create': {
    usage: 'apikeys create --user <id or address> --name <name> [--scope] [--tables] [--app]',
    summary: 'make an API key for a user; it is shown once',
    examples: [
      'svc apikeys create --user ann@example.com --name nightly --scope readonly',
      'svc apikeys create --user ann@example.com --name shop --tables orders,items',
    ],
    flags: { user: 'string', name: 'string', scope: 'string', tables: 'string', app: 'string' },
    about: {
      user: 'whose rights it has, by id or address',
      name: 'what it is for',
      scope: '*, readonly or readwrite, with storage:read, storage:write; default: *',
      tables: 'the tables that it reaches, separated by commas; default: all',
      app: 'the id of the app whose limits count',
    },
    usesServer: true,
    run: async (context) => (await import('./api-keys.ts')).createApiKey(context),
  },
  'apikeys revoke': {
    usage: 'apikeys revoke <id>',
    summary: 'revoke an API key; it ends within a second',
    args: ['id'],
    examples: [
      'svc apikeys revoke 5b1f0c1e-8d0f-4a55-9a3c-1d5c0e1b2a3f',
      'svc apikeys revoke 5b1f0c1e-8d0f-4a55-9a3c-1d5c0e1b2a3f --json',
    ],
    usesServer: true,
    run: async (context) => (await import('./api-keys.ts')).revokeApiKey(context),
  },
}
