import { unauthorized } from '../../core/errors.ts'
import type { IdentityDeps } from '../../identity/deps.ts'
import { codeMessage, type SmsCodeConfig } from '../../identity/sms-code.ts'
import { challengeNotFound } from './challenges.ts'
import type { CodeChannel } from './sent-codes.ts'

type Deps = Pick<IdentityDeps, 'appName' | 'queueSms' | 'wakeSms'> & { config: SmsCodeConfig }

export function smsChannel({ config, appName, queueSms, wakeSms }: Deps): CodeChannel {
  const wrong = () => unauthorized('invalid or expired code', 'invalid_code')
  return {
    method: 'sms',
    digits: config.sms_code_length,
    seconds: config.sms_code_expiry,
    maxWrong: config.sms_max_attempts,
    fixedCode: (to) => config.sms_test_phone_numbers[to],
    message: (to, code) => queueSms(to, codeMessage(appName, code)),
    wake: wakeSms,
    // The sending routes have a rate limit, and SMS has a daily limit.
    spendMessage: async () => {},
    failures: { wrong, expiredEnrolment: wrong, expiredChallenge: challengeNotFound },
  }
}
