import { useEffect, useState } from 'react'
import { Field } from '../parts/ui.tsx'
import { useAddress } from './navigate.tsx'

type FindProps = {
  label: string
  placeholder?: string
  /** Of the address; a list goes back to its first page. */
  name?: 'find' | 'search'
  /** The label stands above it, not inside. */
  labelled?: boolean
}

/** What a page is searched for. It is kept in the address. */
export function Find({ label, placeholder = label, name = 'find', labelled = false }: FindProps) {
  const [search, go] = useAddress()
  const inAddress = search[name] ?? ''
  const [typed, setTyped] = useState(inAddress)
  // By a link, or back.
  useEffect(() => setTyped(inAddress), [inAddress])
  const common = {
    className: 'input',
    type: 'search',
    placeholder,
    value: typed,
    onChange: ({ target: { value } }: { target: { value: string } }) => {
      setTyped(value)
      go({ [name]: value || undefined, page: undefined, offset: undefined }, { replace: true })
    },
  }
  if (labelled) return <Field label={label}>{(props) => <input {...common} {...props} />}</Field>
  return <input {...common} className="input find" aria-label={label} />
}
