import type { Plugin } from 'esbuild'

export function errorReference(text: string): { group: string; error: string; status: number; when: string }[]
export const errorReferencePlugin: Plugin
