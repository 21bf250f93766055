import { readFileSync } from 'node:fs'
import { packageRoot } from './package-root.ts'

const { version: declared } = JSON.parse(readFileSync(`${packageRoot}package.json`, 'utf8')) as { version: string }

export const version: string = declared
