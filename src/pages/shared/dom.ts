import type { PageData, PageName } from './page-data.ts'

/** `false` is skipped, so that children can be conditional. */
export type Child = Node | string | false
export type Props = Readonly<Record<string, string | boolean | undefined | ((event: Event) => void)>>

/** Creates an element: el('p', { class: 'soft' }, 'text', node). Strings become text, never HTML. */
export function el<Tag extends keyof HTMLElementTagNameMap>(tag: Tag, props: Props = {}, ...children: Child[]) {
  const node = document.createElement(tag)
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === 'function') node.addEventListener(name.slice(2), value)
    else if (value !== false && value !== undefined) node.setAttribute(name, value === true ? '' : value)
  }
  replace(node, ...children)
  return node
}

export const section = (title: string, ...children: Child[]) => el('section', {}, el('h2', {}, title), ...children)
export const soft = (...children: Child[]) => el('p', { class: 'soft' }, ...children)
export const buttons = (...children: Child[]) => el('div', { class: 'buttons' }, ...children)
export const alertLine = (...children: Child[]) => el('p', { role: 'alert' }, ...children)
export const statusLine = (props: Props = {}, ...children: Child[]) =>
  el('p', { role: 'status', ...props }, ...children)

export const replace = (container: HTMLElement, ...children: Child[]) =>
  container.replaceChildren(...children.filter((child) => child !== false))

/** Replaces the content of a container and moves the focus there. */
export function show(container: HTMLElement, ...children: Child[]): void {
  replace(container, ...children)
  focusOn(
    container.querySelector<HTMLElement>('input:not([readonly])') ?? container.querySelector<HTMLElement>('h1, h2'),
  )
}

export function focusOn(node: HTMLElement | null): void {
  if (node && node.tagName !== 'INPUT') node.tabIndex = -1
  node?.focus()
}

/** Finds an element of the page that the server sent. */
export function find<Tag extends keyof HTMLElementTagNameMap>(tag: Tag): HTMLElementTagNameMap[Tag] {
  const node = document.querySelector(tag)
  if (!node) throw new Error(`the page has no ${tag}`)
  return node
}

/** The data that the server passed to this page. */
export const pageData = <Name extends PageName>() => document.body.dataset as PageData[Name]
