import type { IconName } from '../parts/icon.tsx'

/** The pages, in the order of the navigation. */
export const PAGES: readonly {
  group: string
  pages: readonly (readonly [path: string, title: string, icon: IconName])[]
}[] = [
  {
    group: '',
    pages: [['/', 'Overview', 'home']],
  },
  {
    group: 'Data',
    pages: [
      ['/tables', 'Tables', 'table'],
      ['/sql', 'SQL', 'sql'],
      ['/schema', 'Schema', 'schema'],
      ['/policies', 'Policies', 'shield'],
      ['/storage', 'Storage', 'folder'],
    ],
  },
  {
    group: 'People',
    pages: [
      ['/users', 'Users', 'users'],
      ['/keys', 'Keys and apps', 'key'],
      ['/email', 'Email', 'mail'],
      ['/push', 'Push', 'bell'],
    ],
  },
  {
    group: 'Work',
    pages: [
      ['/realtime', 'Realtime', 'live'],
      ['/webhooks', 'Webhooks', 'hook'],
      ['/jobs', 'Jobs', 'clock'],
      ['/sites', 'Sites', 'globe'],
    ],
  },
  {
    group: 'Operation',
    pages: [
      ['/logs', 'Logs', 'list'],
      ['/audit', 'Audit', 'audit'],
      ['/usage', 'Usage', 'chart'],
      ['/api', 'API', 'book'],
      ['/settings', 'Settings', 'settings'],
    ],
  },
]
