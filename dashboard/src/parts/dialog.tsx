import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from 'react'
import { visible } from './format.ts'
import { createStore } from './store.ts'
import { Button, ErrorLine, Field } from './ui.tsx'

type DialogProps = {
  title: string
  onClose(): void
  children: ReactNode
  foot?: ReactNode
  look?: string
  onSubmit?: () => void
}

/** The browser's own dialog: focus stays in it, Escape closes it, and focus goes back. */
export function Dialog({ title, onClose, children, foot, look = '', onSubmit }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const element = dialog.current
    element?.showModal()
    element
      ?.querySelector<HTMLElement>('[data-focus], .dialog-body input, .dialog-body select, .dialog-body textarea')
      ?.focus()
    return () => element?.close()
  }, [])
  const content = (
    <>
      <div className="dialog-head">
        <h2 id={id} className="isolate">
          {visible(title)}
        </h2>
        <Button look="quiet small" icon="x" aria-label="Close" onClick={onClose} />
      </div>
      <div className="dialog-body">{children}</div>
      {foot && <div className="dialog-foot">{foot}</div>}
    </>
  )
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    event.stopPropagation()
    onSubmit?.()
  }
  return (
    <dialog
      ref={dialog}
      className={`dialog ${look}`}
      aria-labelledby={id}
      onCancel={(event) => {
        if (event.target !== dialog.current) return
        event.preventDefault()
        onClose()
      }}
    >
      {onSubmit ? (
        <form onSubmit={submit} style={{ display: 'contents' }}>
          {content}
        </form>
      ) : (
        content
      )}
    </dialog>
  )
}

export type Question = {
  title: string
  text?: ReactNode
  /** What has to be typed first. */
  name?: string
  yes: string
  danger?: boolean
}

const question = createStore<(Question & { answer(isYes: boolean): void }) | null>(null)

/** Asks before something happens that cannot be taken back. */
export const confirm = (asked: Question): Promise<boolean> =>
  new Promise((resolve) => {
    question.get()?.answer(false)
    question.set({
      ...asked,
      answer(isYes) {
        question.set(null)
        resolve(isYes)
      },
    })
  })

export function Questions() {
  const asked = question.use()
  return asked ? <Ask key={asked.title} {...asked} /> : null
}

function Ask({ title, text, name, yes, danger = true, answer }: Question & { answer(isYes: boolean): void }) {
  const [typed, setTyped] = useState('')
  const isReady = name === undefined || typed === name
  return (
    <Dialog
      title={title}
      onClose={() => answer(false)}
      onSubmit={() => isReady && answer(true)}
      foot={
        <>
          <Button onClick={() => answer(false)} {...(name === undefined && { 'data-focus': true })}>
            Cancel
          </Button>
          <Button type="submit" look={danger ? 'primary danger' : 'primary'} disabled={!isReady}>
            {yes}
          </Button>
        </>
      }
    >
      {typeof text === 'string' ? <p>{text}</p> : text}
      {name !== undefined && (
        <Field label={`Type “${name}” to go on`}>
          {(props) => (
            <input
              className="input mono"
              autoComplete="off"
              {...props}
              value={typed}
              onChange={(e) => setTyped(e.target.value)}
            />
          )}
        </Field>
      )}
    </Dialog>
  )
}

export type FormField = {
  name: string
  label: string
  type?: 'text' | 'password' | 'email' | 'url' | 'number' | 'area' | 'select' | 'check' | 'code' | 'datetime-local'
  options?: readonly (readonly [value: string, title: string])[]
  hint?: ReactNode
  placeholder?: string
  required?: boolean
  value?: string | boolean
}

export type Values = Record<string, string | boolean>

type FormDialogProps = {
  title: string
  fields: readonly FormField[]
  yes: string
  intro?: ReactNode
  danger?: boolean
  onClose(): void
  /** Closes the dialog when it succeeds; a failure is said in it, and what was typed stays. */
  onSubmit(values: Values): Promise<unknown>
  children?: (values: Values) => ReactNode
  look?: string
}

/** A form as data. */
export function FormDialog({ title, fields, yes, intro, danger, onClose, onSubmit, children, look }: FormDialogProps) {
  const [values, setValues] = useState<Values>(() =>
    Object.fromEntries(
      fields.map((f) => [f.name, f.value ?? (f.type === 'check' ? false : (f.options?.[0]?.[0] ?? ''))]),
    ),
  )
  const [error, setError] = useState<unknown>(null)
  const [busy, setBusy] = useState(false)
  const submit = async (): Promise<void> => {
    setBusy(true)
    setError(null)
    try {
      await onSubmit(values)
      onClose()
    } catch (failure) {
      setError(failure)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={() => void submit()}
      {...(look && { look })}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look={danger ? 'primary danger' : 'primary'} busy={busy}>
            {yes}
          </Button>
        </>
      }
    >
      {intro}
      {fields.map((field) => (
        <FormInput
          key={field.name}
          field={field}
          value={values[field.name] ?? ''}
          onChange={(value) => setValues({ ...values, [field.name]: value })}
        />
      ))}
      {children?.(values)}
      <ErrorLine error={error} />
    </Dialog>
  )
}

function FormInput({
  field,
  value,
  onChange,
}: {
  field: FormField
  value: string | boolean
  onChange(value: string | boolean): void
}) {
  const { type = 'text', label, hint, options, placeholder, required } = field
  if (type === 'check') {
    return (
      <div className="field">
        <label className="check">
          <input type="checkbox" checked={value === true} onChange={(event) => onChange(event.target.checked)} />
          <span>{label}</span>
        </label>
        {hint && <span className="hint">{hint}</span>}
      </div>
    )
  }
  const text = String(value)
  return (
    <Field label={label} hint={hint}>
      {(props) => {
        if (type === 'select') {
          return (
            <select className="input" {...props} value={text} onChange={(event) => onChange(event.target.value)}>
              {options?.map(([name, title]) => (
                <option key={name} value={name}>
                  {title}
                </option>
              ))}
            </select>
          )
        }
        const common = { ...props, placeholder, required, value: text, autoComplete: 'off' }
        if (type === 'area' || type === 'code') {
          return (
            <textarea
              {...common}
              className={type === 'code' ? 'input mono' : 'input'}
              rows={6}
              spellCheck={type === 'area'}
              onChange={(event) => onChange(event.target.value)}
            />
          )
        }
        return <input {...common} type={type} className="input" onChange={(event) => onChange(event.target.value)} />
      }}
    </Field>
  )
}
