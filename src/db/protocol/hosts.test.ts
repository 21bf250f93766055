import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hostNames, hostsOf } from './hosts.ts'

test('a connection string with several hosts becomes one for each, with login, database and options', () => {
  assert.deepEqual(hostsOf('postgres://me:p%40ss@h1:5432,h2:5433,[::1]:5434/app?sslmode=require'), {
    urls: [
      'postgres://me:p%40ss@h1:5432/app?sslmode=require',
      'postgres://me:p%40ss@h2:5433/app?sslmode=require',
      'postgres://me:p%40ss@[::1]:5434/app?sslmode=require',
    ],
    attrs: 'primary',
  })
  assert.deepEqual(hostsOf('postgresql://h1,h2/app?target_session_attrs=read-write'), {
    urls: ['postgresql://h1/app', 'postgresql://h2/app'],
    attrs: 'read-write',
  })
  assert.deepEqual(hostsOf('postgres://me@/app?host=/run/a,/run/b&port=5432,5433'), {
    urls: ['postgres://me@/app?host=%2Frun%2Fa&port=5432', 'postgres://me@/app?host=%2Frun%2Fb&port=5433'],
    attrs: 'primary',
  })
  assert.deepEqual(hostsOf('postgres://me@/app?host=/run/a'), {
    urls: ['postgres://me@/app?host=/run/a'],
    attrs: 'primary',
  })
  assert.deepEqual(hostsOf('postgres://me@db:5432/app'), { urls: ['postgres://me@db:5432/app'], attrs: 'primary' })
})

test('hosts are named without login and database', () => {
  assert.equal(hostNames('postgres://me:secret@h1:5432,h2:5432/app'), 'h1:5432,h2:5432')
  assert.equal(hostNames('postgres://me@/app?host=/run/a'), '/run/a')
})
