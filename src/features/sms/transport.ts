export type Sms = { /** E.164. */ to: string; body: string }

/** Sends text messages; resolves when the gateway has accepted the message. */
export interface SmsTransport {
  send(sms: Sms): Promise<void>
}

export type SmsConfig = {
  readonly sms_provider: 'log' | 'webhook' | 'twilio'
  readonly sms_daily_limit: number
  readonly sms_allowed_countries: readonly string[]
  readonly sms_webhook_url: string
  readonly sms_webhook_secret: string
  readonly twilio_sid: string
  readonly twilio_token: string
  readonly twilio_from: string
}
