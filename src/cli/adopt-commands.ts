import type { Command } from './command/command.ts'

export const adoptCommands: Readonly<Record<string, Command>> = {
  'adopt pocketbase': {
    usage: 'adopt pocketbase <pb_data> [--apply | --out <dir>] [--profile <name>] [--relation-views]',
    args: ['pb_data'],
    summary: 'bring collections, rules, users and files of a PocketBase; a dry run until --apply',
    examples: ['svc adopt pocketbase ./pb_data', 'svc adopt pocketbase ./pb_data --apply'],
    about: {
      apply: 'do it; without it the plan is printed and nothing changes',
      out: 'write schema and policies as migrations into this folder instead',
      profile: 'the auth collection in which people who register later get a record; default: users',
      'relation-views': 'make a view <collection>_<field> of each relation to several records, for joins',
    },
    flags: { apply: 'boolean', out: 'string', profile: 'string', 'relation-views': 'boolean' },
    run: async (context) => (await import('./adopt/pocketbase/pocketbase.ts')).adoptPocketbase(context),
  },
  'adopt supabase': {
    usage:
      'adopt supabase <postgres://…> [--files <folder or s3://…>] [--apply | --out <dir>] | --in-place [--undo] [--apply]',
    args: ['url?'],
    summary: 'bring tables, policies, functions, users and files of a Supabase; a dry run until --apply',
    examples: [
      'svc adopt supabase postgres://postgres@db.example.com/postgres',
      'svc adopt supabase --in-place --apply',
    ],
    about: {
      apply: 'do it; without it the plan is printed and nothing changes',
      out: 'write schema and policies as migrations into this folder instead',
      files: 'where the bytes of files are: a folder or s3://bucket/prefix',
      'in-place': 'the database that the server runs on is the one of Supabase',
      undo: 'take away what --in-place added',
    },
    flags: { apply: 'boolean', out: 'string', files: 'string', 'in-place': 'boolean', undo: 'boolean' },
    run: async (context) => (await import('./adopt/supabase/supabase.ts')).adoptSupabase(context),
  },
  'adopt allyourbase': {
    usage: 'adopt allyourbase <postgres://…> [--files <folder>] [--apply | --out <dir>] | --in-place [--apply]',
    args: ['url?'],
    summary: 'bring tables, policies, users and files of an AllYourBase; a dry run until --apply',
    examples: ['svc adopt allyourbase postgres://ayb@localhost/ayb', 'svc adopt allyourbase --in-place --apply'],
    about: {
      apply: 'do it; without it the plan is printed and nothing changes',
      out: 'write schema and policies as migrations into this folder instead',
      files: 'the folder in which its files lie',
      'in-place': 'the database that the server runs on is the one of AllYourBase',
    },
    flags: { apply: 'boolean', out: 'string', files: 'string', 'in-place': 'boolean' },
    run: async (context) => (await import('./adopt/allyourbase/allyourbase.ts')).adoptAllYourBase(context),
  },
}
