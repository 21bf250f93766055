import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contentTypeOf, isPassive } from './content-type.ts'
import { attachment } from './disposition.ts'

test('a file is named in any script, and nothing in its name ends the header', () => {
  assert.equal(attachment('a/b/report.pdf'), 'attachment; filename="report.pdf"')
  assert.equal(
    attachment('naïve "x".txt'),
    `attachment; filename="na_ve _x_.txt"; filename*=UTF-8''na%C3%AFve%20%22x%22.txt`,
  )
  assert.equal(attachment('見本.txt'), `attachment; filename="__.txt"; filename*=UTF-8''%E8%A6%8B%E6%9C%AC.txt`)
  assert.equal(
    attachment("it's (1)*%41.txt"),
    `attachment; filename="it's (1)*_41.txt"; filename*=UTF-8''it%27s%20%281%29%2A%2541.txt`,
  )
  assert.doesNotMatch(attachment('a\r\nSet-Cookie: x.txt'), /[\r\n]/)
})

test('the extension decides the type, then the client, and nonsense is unknown', () => {
  assert.equal(contentTypeOf('a/b.HTML'), 'text/html; charset=utf-8')
  assert.equal(contentTypeOf('photo.png', 'text/html'), 'image/png')
  assert.equal(contentTypeOf('noextension', 'image/webp'), 'image/webp')
  assert.equal(contentTypeOf('x.unheardof', 'text/html\r\nX: y'), 'application/octet-stream')
  assert.equal(contentTypeOf('folder.png/x'), 'application/octet-stream')
})

test('documents that could run scripts, and unknown types, are not passive', () => {
  for (const name of ['a.html', 'a.xhtml', 'a.svg', 'a.xml', 'a.js', 'a.mjs', 'a.bin', 'a.mml', 'a.xsl', 'a.zip']) {
    assert.equal(isPassive(contentTypeOf(name)), false, name)
  }
  for (const name of ['a.png', 'a.jpg', 'a.mp4', 'a.mp3', 'a.txt', 'a.csv', 'a.json', 'a.pdf', 'a.woff2']) {
    assert.equal(isPassive(contentTypeOf(name)), true, name)
  }
})
