export type SmsCodeConfig = {
  sms_code_length: number
  sms_code_expiry: number
  sms_max_attempts: number
  sms_test_phone_numbers: Readonly<Record<string, string>>
}

/** The text of an SMS, for sign-in and for the second factor. */
export const codeMessage = (appName: string, code: string): string => `Your ${appName} code is ${code}`

/** As people type it: codes are shown in groups. */
export const typedCode = (code: string): string => code.replace(/\s/g, '')
