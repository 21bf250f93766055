import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hasHash } from './hashed-names.ts'

test('names with a hash of eight or more characters are told from names that are only long', () => {
  const hashed = [
    'app.3f9ab21c.js',
    'assets/index-BxY1_z9Q.js',
    'chunk-5DQXZ3KR.css',
    'main.deadbeef.js',
    'a.12345678.png',
    'x.0123456789abcdef0123.js',
    'app.3f9ab21c.js.map',
    'index-B-xY12_3.css',
    'app.3f9ab21c.chunk.js',
  ]
  for (const name of hashed) assert.equal(hasHash(name), true, name)
  const plain = [
    'app.js',
    'my-component.js',
    'jquery-3.7.1.min.js',
    'report-20240131.pdf',
    'deadbeef',
    'index.html',
    'very-long-name-of-a-page.css',
    'bootstrap.bundle.js',
    'MyWidget.js',
    'vendor-Component.js',
    'deadbeef.js',
    'photo-IMG_1234.jpg',
  ]
  for (const name of plain) assert.equal(hasHash(name), false, name)
})
