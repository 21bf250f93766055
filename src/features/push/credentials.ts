import { createPrivateKey, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'

export type FcmCredentials = { projectId: string; clientEmail: string; key: KeyObject; tokenUri: string }
export type ApnsCredentials = { key: KeyObject; teamId: string; keyId: string; bundleId: string }

/** Ends the start with one sentence that never quotes the file. */
const refuse = (key: string, reason: string): never => {
  throw new Error(`invalid value for ${key}: ${reason}`)
}

function fileAt(key: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    return refuse(key, `cannot read ${path}: ${(error as NodeJS.ErrnoException).code}`)
  }
}

function privateKey(key: string, pem: string, type: 'rsa' | 'ec'): KeyObject {
  let found: KeyObject
  try {
    found = createPrivateKey(pem)
  } catch {
    return refuse(key, 'the file has no private key that can be read')
  }
  if (found.asymmetricKeyType !== type) refuse(key, `expected a private key of type ${type.toUpperCase()}`)
  return found
}

/** The JSON file of a service account; undefined when none is configured. */
export function fcmCredentials(path: string): FcmCredentials | undefined {
  const key = 'push.fcm.credentials_file'
  if (path === '') return undefined
  let file: Record<string, unknown> = {}
  try {
    file = Object(JSON.parse(fileAt(key, path)))
  } catch (error) {
    if (error instanceof SyntaxError) refuse(key, 'the file is not JSON')
    throw error
  }
  const text = (name: string): string => {
    const value = file[name]
    return typeof value === 'string' && value !== '' ? value : refuse(key, `the file has no ${name}`)
  }
  const tokenUri = text('token_uri')
  if (!/^https?:\/\//.test(tokenUri) || !URL.canParse(tokenUri)) refuse(key, 'token_uri is not an http or https URL')
  return {
    projectId: text('project_id'),
    clientEmail: text('client_email'),
    key: privateKey(key, text('private_key'), 'rsa'),
    tokenUri,
  }
}

/** The .p8 key and what belongs to it; undefined when none is configured. */
export function apnsCredentials(config: {
  key_file: string
  team_id: string
  key_id: string
  bundle_id: string
}): ApnsCredentials | undefined {
  const key = 'push.apns.key_file'
  if (config.key_file === '') return undefined
  return {
    key: privateKey(key, fileAt(key, config.key_file), 'ec'),
    teamId: config.team_id,
    keyId: config.key_id,
    bundleId: config.bundle_id,
  }
}
