import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addressSubject, createClientAddress, networkOf } from './client-address.ts'

test('without trusted proxies the peer is the client, whatever it claims', () => {
  const clientOf = createClientAddress([])
  assert.equal(clientOf('203.0.113.9', '1.1.1.1'), '203.0.113.9')
  assert.equal(clientOf('::ffff:203.0.113.9', '1.1.1.1'), '203.0.113.9')
  assert.equal(clientOf(undefined), '')
})

test('behind trusted proxies the client is the last address that is not one of them', () => {
  const clientOf = createClientAddress(['10.0.0.0/8', '::1', 'fd00::/8'])
  const cases: [peer: string, forwarded: string | undefined, client: string][] = [
    ['10.0.0.1', '198.51.100.7', '198.51.100.7'],
    ['10.0.0.1', '6.6.6.6, 198.51.100.7', '198.51.100.7'],
    ['10.0.0.1', '6.6.6.6, 198.51.100.7, 10.2.3.4', '198.51.100.7'],
    ['::ffff:10.0.0.1', '198.51.100.7:4711', '198.51.100.7'],
    ['::1', '[2001:db8::5]:443', '2001:db8::5'],
    ['fd00::2', '2001:db8::5', '2001:db8::5'],
    ['10.0.0.1', '10.9.9.9, 10.2.3.4', '10.9.9.9'],
    ['10.0.0.1', undefined, '10.0.0.1'],
    ['10.0.0.1', '198.51.100.7, rubbish', '10.0.0.1'],
    ['10.0.0.1', '', '10.0.0.1'],
    ['203.0.113.9', '198.51.100.7', '203.0.113.9'],
  ]
  // The second time as kept from the first.
  for (const [peer, forwarded, client] of [...cases, ...cases]) {
    assert.equal(clientOf(peer, forwarded), client, `${peer} ← ${forwarded}`)
  }
})

test('addresses are read rightly however many and however long they are', () => {
  const clientOf = createClientAddress(['10.0.0.0/8'])
  for (let i = 0; i < 3000; i++) {
    const address = `198.51.${i >> 8}.${i & 255}`
    assert.equal(clientOf('10.0.0.1', address), address)
  }
  const zone = 'z'.repeat(1000)
  for (let i = 0; i < 2; i++) assert.equal(clientOf('10.0.0.1', `2001:db8::5%${zone}`), `2001:db8::5%${zone}`)
})

test('an IPv6 customer is counted by its /64, an IPv4 address by itself', () => {
  assert.equal(addressSubject('2001:db8:1:2::1'), addressSubject('2001:db8:1:2:ffff::9'))
  assert.notEqual(addressSubject('2001:db8:1:2::1'), addressSubject('2001:db8:1:3::1'))
  assert.equal(addressSubject('::ffff:192.0.2.1'), '192.0.2.1')
  assert.equal(addressSubject('192.0.2.1'), '192.0.2.1')
})

test('a network is an IPv4 /24 or an IPv6 /64', () => {
  assert.equal(networkOf('192.0.2.1'), '192.0.2.0/24')
  assert.equal(networkOf('::ffff:192.0.2.77'), '192.0.2.0/24')
  assert.equal(networkOf('2001:db8:1:2::1'), networkOf('2001:db8:1:2:ffff::9'))
})
