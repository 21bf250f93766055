import { memory, SessionEnded } from '../../src/main.ts'
import { type Cases, clientAt, equal, failure, losing, newAccount, refusal } from './kit.ts'

export const people: Cases = {
  async 'accounts: sign up, sign in, sign out, and what others do not see'(place) {
    const svc = clientAt(place)
    const account = newAccount()
    const heard: (string | undefined)[] = []
    const stop = svc.auth.onChange((session) => void heard.push(session?.user.email))
    equal((await refusal(svc.auth.login(account))).error, 'invalid_credentials')
    const { user } = await svc.auth.register(account)
    equal([user.email, svc.auth.session?.user.id], [account.email, user.id])
    equal((await svc.auth.me()).id, user.id)
    equal((await svc.auth.update({ metadata: { theme: 'dark' } })).metadata, { theme: 'dark' })
    const mine = svc.from('mine')
    const row = await mine.create({ text: 'secret' })
    equal(row.owner, user.id)
    const other = svc.as(svc.auth.session?.token ?? '')
    equal((await other.from('mine').list()).items.length, 1)
    equal((await svc.auth.sessions()).length, 1)
    await svc.auth.logout()
    equal([svc.auth.session, (await mine.list()).items.length], [null, 0])
    const signedIn = await svc.auth.login(account)
    equal([signedIn.user?.id, (await mine.list()).items.length], [user.id, 1])
    equal((await refusal(clientAt(place).auth.register(account))).error, 'email_taken')
    await svc.auth.resetPassword({ email: account.email })
    await svc.auth.delete()
    stop()
    equal(heard, [account.email, undefined, account.email, undefined])
    equal((await refusal(svc.auth.me())).status, 401)
    const bad = await refusal(svc.as('nonsense').from('notes').list())
    equal([bad.status, bad.error], [401, 'invalid_token'])
  },

  async 'a token is renewed before it ends, and a lost answer to that signs nobody out'(place) {
    const proxy = losing(1, /refresh/)
    const svc = clientAt(place, { fetch: proxy.fetch })
    const account = newAccount()
    await svc.auth.register(account)
    const before = svc.auth.session
    await Promise.all([svc.auth.refresh(), svc.auth.refresh()])
    equal([proxy.lost(), svc.auth.session?.refreshToken === before?.refreshToken], [1, false])
    equal((await svc.auth.me()).email, account.email)
  },

  async 'a session that the server ended is over'(place) {
    const svc = clientAt(place)
    const account = newAccount()
    await svc.auth.register(account)
    const elsewhere = clientAt(place, { session: memory() })
    await elsewhere.auth.login(account)
    await elsewhere.auth.endSession('others')
    const ended = await failure(svc.auth.me())
    equal([ended.name, ended instanceof SessionEnded, svc.auth.session], ['SessionEnded', true, null])
  },
}
