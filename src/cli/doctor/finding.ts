/** One line of what the doctor saw. */
export type DoctorItem = {
  /** What was looked at, such as `roles`. */
  readonly check: string
  readonly state: 'ok' | 'finding'
  readonly message: string
  /** What to do; empty where nothing is wrong. */
  readonly fix: string
}

export const fine = (check: string, message: string): DoctorItem => ({ check, state: 'ok', message, fix: '' })
export const finding = (check: string, message: string, fix: string): DoctorItem => ({
  check,
  state: 'finding',
  message,
  fix,
})

/** The findings of a check, or one line that there are none. */
export const orFine = (check: string, message: string, findings: readonly DoctorItem[]): readonly DoctorItem[] =>
  findings.length > 0 ? findings : [fine(check, message)]
