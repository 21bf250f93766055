import {
  auth0Credential,
  type Credential,
  clerkCredential,
  credentialOf,
  type FirebaseParameters,
  firebaseCredential,
} from './hashes.ts'
import {
  emailIn,
  fieldIn,
  isTrue,
  keptId,
  type Loss,
  listIn,
  metadataJson,
  momentIn,
  objectIn,
  type Person,
  phoneIn,
  present,
  textIn,
  type UserFields,
} from './person.ts'

export const USER_FORMATS = ['firebase', 'auth0', 'supabase', 'clerk', 'generic'] as const
export type Format = (typeof USER_FORMATS)[number]

type Found = {
  id: string
  email: string
  isVerified: boolean
  phone: string
  credential: Credential | undefined
  identities?: readonly { provider: string; subject: string }[]
  metadata: UserFields
  appMetadata?: UserFields
  isDisabled: boolean
  isAnonymous?: boolean
  created: string
  hasFactor?: boolean
  userName?: string
}

export const personOf = (
  format: Format,
  fields: UserFields,
  firebase: FirebaseParameters | undefined,
): Person | undefined => checked(format, READERS[format](fields, firebase))

/** Undefined for a user whom nothing names. */
function checked(format: Format, found: Found): Person | undefined {
  const email = emailIn(found.email)
  const phone = phoneIn(found.phone)
  const name = found.id || (email ?? phone ?? '')
  if (name === '') return undefined
  const [metadata, appMetadata] = [metadataJson(found.metadata), metadataJson(found.appMetadata ?? {})]
  const lost: Loss[] = []
  if (found.hasFactor === true) lost.push('second factor')
  if (found.email !== '' && email === null) lost.push('address')
  if (found.phone !== '' && phone === null) lost.push('phone')
  if (metadata === undefined || appMetadata === undefined) lost.push('metadata')
  if (email === null && phone === null && found.credential && found.userName) lost.push('user name')
  return {
    key: name.replaceAll('\0', '').slice(0, MAX_KEY),
    id: format === 'supabase' || format === 'generic' ? keptId(found.id) : undefined,
    email,
    isVerified: email !== null && found.isVerified,
    phone,
    credential: found.credential,
    identities: (found.identities ?? []).filter(
      ({ provider, subject }) =>
        /^[\w.-]{1,64}$/.test(provider) && subject !== '' && subject.length <= MAX_KEY && !subject.includes('\0'),
    ),
    metadata: metadata ?? '{}',
    appMetadata: appMetadata ?? '{}',
    isDisabled: found.isDisabled,
    isAnonymous: found.isAnonymous === true && email === null && phone === null,
    createdAt: momentIn(found.created),
    lost,
  }
}

const MAX_KEY = 255

/** What `…_at` says; `null` as text is none. */
const isMoment = (value: unknown): boolean => momentIn(String(value ?? '').trim()) !== null

const hashed = (text: string): Credential | undefined => (text === '' ? undefined : credentialOf(text))

/** Providers by their names there; others keep theirs. */
const PROVIDERS: ReadonlyMap<string, string> = new Map([
  ['google.com', 'google'],
  ['google-oauth2', 'google'],
  ['facebook.com', 'facebook'],
  ['twitter.com', 'twitter'],
  ['github.com', 'github'],
  ['apple.com', 'apple'],
  ['microsoft.com', 'microsoft'],
  ['windowslive', 'microsoft'],
])
const providerOf = (name: string): string => PROVIDERS.get(name) ?? name

/** The columns of `firebase auth:export users.csv`, which has no line of names. */
export const FIREBASE_COLUMNS: readonly string[] = [
  ...['localId', 'email', 'emailVerified', 'passwordHash', 'salt', 'displayName', 'photoUrl'],
  ...['google.com', 'facebook.com', 'twitter.com', 'github.com'].flatMap((name) => [
    name,
    `${name} email`,
    `${name} name`,
    `${name} photo`,
  ]),
  ...['createdAt', 'lastSignedInAt', 'phoneNumber', 'disabled', 'customAttributes'],
]

function firebaseUser(fields: UserFields, parameters: FirebaseParameters | undefined): Found {
  const [hash, salt] = [textIn(fields, 'passwordHash'), textIn(fields, 'salt')]
  const linked = listIn(fields, 'providerUserInfo').map((one) => ({
    provider: textIn(one, 'providerId'),
    subject: textIn(one, 'rawId'),
  }))
  const columns = ['google.com', 'facebook.com', 'twitter.com', 'github.com'].map((provider) => ({
    provider,
    subject: textIn(fields, provider),
  }))
  const identities = [...linked, ...columns]
    .filter(({ provider, subject }) => subject !== '' && provider !== 'password' && provider !== 'phone')
    .map(({ provider, subject }) => ({ provider: providerOf(provider), subject }))
  const [email, phone] = [textIn(fields, 'email'), textIn(fields, 'phoneNumber')]
  return {
    id: textIn(fields, 'localId', 'uid'),
    email,
    isVerified: isTrue(fields['emailVerified']),
    phone,
    credential:
      hash === ''
        ? undefined
        : parameters
          ? firebaseCredential(hash, salt, parameters)
          : { kind: 'unknown', hash: undefined },
    identities,
    metadata: present({ name: textIn(fields, 'displayName'), picture: textIn(fields, 'photoUrl') }),
    appMetadata: objectIn(fields, 'customAttributes', 'customClaims'),
    isDisabled: isTrue(fields['disabled']),
    isAnonymous: email === '' && phone === '' && identities.length === 0,
    created: textIn(fields, 'createdAt'),
    hasFactor: listIn(fields, 'mfaInfo').length > 0,
  }
}

function auth0User(fields: UserFields): Found {
  const oid = textIn(objectIn(fields, '_id'), '$oid')
  const given = textIn(fields, 'user_id', 'Id') || (oid === '' ? '' : `auth0|${oid}`)
  const id = given.includes('|') || given === '' ? given : `auth0|${given}`
  const custom = objectIn(fields, 'custom_password_hash')
  const linked = listIn(fields, 'identities').map((one) => `${textIn(one, 'provider')}|${textIn(one, 'user_id')}`)
  const identities = [...new Set([id, ...linked])].flatMap((one) => {
    const at = one.indexOf('|')
    const [provider, subject] = [one.slice(0, Math.max(at, 0)), one.slice(at + 1)]
    return provider === '' || provider === 'auth0' || provider === 'sms' || provider === 'email' || subject === ''
      ? []
      : [{ provider: providerOf(provider), subject }]
  })
  return {
    id,
    email: textIn(fields, 'email', 'Email'),
    isVerified: isTrue(fieldIn(fields, 'email_verified', 'Email Verified')),
    phone: isTrue(fields['phone_verified']) ? textIn(fields, 'phone_number') : '',
    credential:
      Object.keys(custom).length > 0
        ? auth0Credential(custom)
        : hashed(textIn(fields, 'password_hash', 'passwordHash')),
    identities,
    metadata: {
      ...present({
        name: textIn(fields, 'name', 'Name'),
        given_name: textIn(fields, 'given_name', 'Given Name'),
        family_name: textIn(fields, 'family_name', 'Family Name'),
        nickname: textIn(fields, 'nickname', 'Nickname'),
        username: textIn(fields, 'username'),
        picture: textIn(fields, 'picture', 'Picture'),
      }),
      ...objectIn(fields, 'user_metadata'),
    },
    appMetadata: objectIn(fields, 'app_metadata'),
    isDisabled: isTrue(fields['blocked']),
    created: textIn(fields, 'created_at', 'Created At'),
    hasFactor:
      listIn(fields, 'mfa_factors').length > 0 ||
      (Array.isArray(fields['multifactor']) && fields['multifactor'].length > 0),
    userName: textIn(fields, 'username'),
  }
}

/** `confirmed_at` is the address alone only where there are none of these; since 2021 it is the earlier one of address and phone. */
const SINCE_PHONES = ['email_confirmed_at', 'phone_confirmed_at', 'phone']

/** Rows of `auth.users`, as JSON or CSV. */
function supabaseUser(fields: UserFields): Found {
  const phone = textIn(fields, 'phone')
  const identities = listIn(fields, 'identities').flatMap((one) => {
    const provider = textIn(one, 'provider')
    const subject = textIn(objectIn(one, 'identity_data'), 'sub') || textIn(one, 'provider_id', 'id')
    return provider === '' || provider === 'email' || provider === 'phone' ? [] : [{ provider, subject }]
  })
  const banned = textIn(fields, 'banned_until')
  return {
    id: textIn(fields, 'id'),
    email: textIn(fields, 'email'),
    isVerified: isMoment(
      fields[SINCE_PHONES.some((name) => Object.hasOwn(fields, name)) ? 'email_confirmed_at' : 'confirmed_at'],
    ),
    phone: phone !== '' && isMoment(fields['phone_confirmed_at']) ? `+${phone.replace(/^\+/, '')}` : '',
    credential: hashed(textIn(fields, 'encrypted_password')),
    identities,
    metadata: objectIn(fields, 'raw_user_meta_data', 'user_metadata'),
    appMetadata: objectIn(fields, 'raw_app_meta_data', 'app_metadata'),
    isDisabled: textIn(fields, 'deleted_at') !== '' || (banned !== '' && !(new Date(banned).getTime() <= Date.now())),
    isAnonymous: isTrue(fields['is_anonymous']),
    created: textIn(fields, 'created_at'),
    hasFactor: listIn(fields, 'factors').some((one) => textIn(one, 'status') === 'verified'),
  }
}

/** The columns of Clerk's CSV, or the same as JSON. */
function clerkUser(fields: UserFields): Found {
  const verified = addressesIn(fields, 'verified_email_addresses')
  const all = [...verified, ...addressesIn(fields, 'unverified_email_addresses')]
  const email = textIn(fields, 'primary_email_address') || (all[0] ?? '')
  const phones = addressesIn(fields, 'verified_phone_numbers')
  const primary = textIn(fields, 'primary_phone_number')
  const digest = textIn(fields, 'password_digest')
  return {
    id: textIn(fields, 'id'),
    email,
    isVerified: verified.some((one) => emailIn(one) === emailIn(email)),
    phone:
      primary === '' || phones.some((one) => phoneIn(one) === phoneIn(primary)) ? primary || (phones[0] ?? '') : '',
    credential: digest === '' ? undefined : clerkCredential(digest, textIn(fields, 'password_hasher')),
    metadata: {
      ...present({
        given_name: textIn(fields, 'first_name'),
        family_name: textIn(fields, 'last_name'),
        username: textIn(fields, 'username'),
      }),
      ...objectIn(fields, 'unsafe_metadata'),
    },
    appMetadata: objectIn(fields, 'public_metadata'),
    isDisabled: isTrue(fields['banned']) || isTrue(fields['locked']),
    created: textIn(fields, 'created_at'),
    hasFactor: textIn(fields, 'totp_secret') !== '' || isTrue(fields['mfa_enabled']),
    userName: textIn(fields, 'username'),
  }
}

const addressesIn = (fields: UserFields, name: string): string[] => {
  const value = fields[name]
  if (Array.isArray(value)) return value.map(String)
  return typeof value === 'string' ? value.split(/[|,;\s]+/).filter((one) => one !== '') : []
}

function genericUser(fields: UserFields): Found {
  const proof = fieldIn(
    fields,
    'email_verified',
    'emailVerified',
    'email_verified_at',
    'email_confirmed_at',
    'verified',
  )
  const isPhoneProven = isTrue(fieldIn(fields, 'phone_verified', 'phoneVerified'))
  return {
    id: textIn(fields, 'id', 'user_id', 'uid'),
    email: textIn(fields, 'email'),
    isVerified: isTrue(proof) || isMoment(proof),
    phone: isPhoneProven ? textIn(fields, 'phone', 'phone_number', 'phoneNumber') : '',
    credential: hashed(textIn(fields, 'password_hash', 'passwordHash')),
    identities: listIn(fields, 'identities').map((one) => ({
      provider: textIn(one, 'provider'),
      subject: textIn(one, 'subject', 'sub'),
    })),
    metadata: {
      ...present({ name: textIn(fields, 'name', 'display_name', 'displayName') }),
      ...objectIn(fields, 'metadata'),
    },
    appMetadata: objectIn(fields, 'app_metadata', 'appMetadata'),
    isDisabled: isTrue(fields['disabled']) || textIn(fields, 'disabled_at') !== '',
    created: textIn(fields, 'created_at', 'createdAt'),
    userName: textIn(fields, 'username'),
  }
}

const READERS: Readonly<Record<Format, (fields: UserFields, firebase: FirebaseParameters | undefined) => Found>> = {
  firebase: firebaseUser,
  auth0: auth0User,
  supabase: supabaseUser,
  clerk: clerkUser,
  generic: genericUser,
}
