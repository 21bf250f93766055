import { createStore, kept } from '../parts/store.ts'

export type Theme = 'system' | 'light' | 'dark'

const first = kept.read('theme')
export const theme = createStore<Theme>(first === 'light' || first === 'dark' ? first : 'system')

export function applyTheme(): void {
  const chosen = theme.get()
  if (chosen === 'system') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = chosen
}

export function setTheme(chosen: Theme): void {
  theme.set(chosen)
  kept.write('theme', chosen)
  applyTheme()
}
