import { confirm } from '../parts/dialog.tsx'

/** Writing as somebody else is confirmed, wherever it begins. */
export const confirmWriteAs = (label: string): Promise<boolean> =>
  confirm({
    title: `Write as ${label}?`,
    text: 'What you change then is changed as this caller, by its rights, and stands in the audit with your name.',
    yes: 'Allow writing',
  })
