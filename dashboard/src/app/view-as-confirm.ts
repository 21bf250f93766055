import { confirm } from '../parts/dialog.tsx'

/** The administrator confirms before anything is written as another caller; the banner and the dialog both ask. */
export const confirmWriteAs = (label: string): Promise<boolean> =>
  confirm({
    title: `Write as ${label}?`,
    text: 'What you change then is changed as this caller, by its rights, and stands in the audit with your name.',
    yes: 'Allow writing',
  })
