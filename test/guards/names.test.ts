import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

/** Names that mean two things today. The list only shrinks: a name leaves it when one of its meanings is renamed. */
const AMBIGUOUS = new Set(
  `Account App Ask AskedIndex Audit Auth Batch Challenge Channel Command Connection Credentials Device Enrolment
Fields Format Identify Input KIND Listed Login MAX_BYTES METHODS METRICS MailConfig Message Operation Outcome
Passwords Progress Provider Range Rate Rows SEPARATOR Scope SignIn SmsConfig Source Step Stored Target
Variables Window allIndexes conflictOf createIndexes createProvider credentialsOf endGrantsOf escapeHtml
insertChallenge integer joined jsonOf keyOf list listFactors lockAccount logTransport oldestUsers oneDelivery
oneOf pageOf parseFilter rangeOf readBody schemaOfIndex sleep spendChallenge sql status stepOf table textOf
webhookTransport whereOf windowOf within`.split(/\s+/),
)

const DECLARATION = /^export (?:abstract )?(?:async )?(?:class|function\*?|const|type|interface) ([\w$]+)/gm

test('an exported name means one thing in all of src', () => {
  const files = new Map<string, string[]>()
  for (const file of readdirSync('src', { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts') || file.endsWith('.test.ts')) continue
    for (const [, name = ''] of readFileSync(join('src', file), 'utf8').matchAll(DECLARATION)) {
      files.set(name, [...(files.get(name) ?? []), file])
    }
  }
  const ambiguous = [...files].filter(([name, places]) => places.length > 1 && !AMBIGUOUS.has(name))
  assert.deepEqual(Object.fromEntries(ambiguous), {})
})
