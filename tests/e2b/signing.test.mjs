// Signed URLs, made by the SDK and used by a plain fetch: no header names the sandbox or brings its token.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { apiUrl, Sandbox, until } from './sdk.mjs'

let one, two
before(async () => {
  ;[one, two] = await Promise.all([Sandbox.create({ timeoutMs: 600_000 }), Sandbox.create({ timeoutMs: 600_000 })])
  await Promise.all([one.files.write('/home/user/who', 'one'), two.files.write('/home/user/who', 'two')])
})
after(async () => { await Promise.all([one?.kill(), two?.kill()]) })

const text = async (url) => {
  const answer = await fetch(url)
  assert.equal(answer.status, 200, url)
  return answer.text()
}
const refusal = async (url, options) => {
  const answer = await fetch(url, options)
  assert.equal(answer.status, 401)
  const body = await answer.json()
  assert.equal(body.code, 401)
  return body.message
}
const form = (content, name = 'x') => {
  const body = new FormData()
  body.append('file', new Blob([content]), name)
  return { method: 'POST', body }
}

test('a download leads to the sandbox that signed it', async () => {
  for (const [sandbox, who] of [[one, 'one'], [two, 'two']]) {
    assert.equal(await text(await sandbox.downloadUrl('who')), who)
    assert.equal(await text(await sandbox.downloadUrl('/home/user/who', { user: 'user' })), who)
    assert.equal(await text(await sandbox.downloadUrl('who', { useSignatureExpiration: 600 })), who)
  }
  const url = await one.downloadUrl('who')
  for (let i = 0; i < 5; i += 1) assert.equal(await text(url), 'one')
  assert.equal((await fetch(url, { method: 'HEAD' })).headers.get('content-length'), '3')
  assert.equal((await fetch(url, { headers: { Range: 'bytes=1-' } })).status, 206)
})

test('the user is part of the signature', async () => {
  assert.equal(await text(await one.downloadUrl('/etc/hostname', { user: 'root' })), (await one.commands.run('cat /etc/hostname')).stdout)
  const url = new URL(await one.downloadUrl('who', { user: 'user' }))
  url.searchParams.set('username', 'root')
  assert.match(await refusal(url), /invalid signature/)
})

test('an upload, with a path and without', async () => {
  assert.equal((await fetch(await one.uploadUrl('up/a b', { useSignatureExpiration: 600 }), form('hello'))).status, 200)
  assert.equal(await one.files.read('/home/user/up/a b'), 'hello')
  assert.equal((await fetch(await two.uploadUrl(), form('named', '/home/user/named'))).status, 200)
  assert.equal(await two.files.read('named'), 'named')
  const large = 'x'.repeat(5 * 1024 * 1024)
  const answer = await fetch(await two.uploadUrl('large'), { method: 'POST', headers: { 'Content-Type': 'application/octet-stream' }, body: large })
  assert.equal(answer.status, 200)
  assert.equal((await two.files.read('large')).length, large.length)
})

test('what was changed is refused', async () => {
  const good = await one.downloadUrl('who', { useSignatureExpiration: 600 })
  for (const [name, value] of [['path', 'other'], ['signature', 'v1_' + 'A'.repeat(43)], ['signature', 'v1_'], ['signature_expiration', '4000000000']]) {
    const url = new URL(good)
    url.searchParams.set(name, value)
    assert.match(await refusal(url), /invalid signature/, `${name}=${value}`)
  }
  const without = new URL(good)
  without.searchParams.delete('signature')
  assert.match(await refusal(without), /missing signature query parameter/)
  assert.match(await refusal(await one.downloadUrl('who'), form('x')), /invalid signature/)
  assert.equal(await one.files.read('who'), 'one')
})

test('an expired signature is refused', async () => {
  assert.equal(await refusal(await one.downloadUrl('who', { useSignatureExpiration: -10 })), 'signature is already expired')
  assert.equal(await refusal(await one.uploadUrl('who', { useSignatureExpiration: -10 }), form('x')), 'signature is already expired')
  const soon = await one.downloadUrl('who', { useSignatureExpiration: 5 })
  await until(async () => (await fetch(soon)).status === 401, 'the signature expires', 60_000)
  assert.equal(await one.files.read('who'), 'one')
})

test('with the sandbox in the headers the daemon checks the signature itself', async () => {
  const headers = { 'E2b-Sandbox-Id': one.sandboxId, 'E2b-Sandbox-Port': '49983' }
  const url = await one.downloadUrl('who')
  assert.equal(await (await fetch(url, { headers })).text(), 'one')
  assert.equal(await refusal(url, { headers: { ...headers, 'E2b-Sandbox-Id': two.sandboxId } }), 'invalid signature')
  assert.equal(await refusal(url, { headers: { ...headers, 'X-Access-Token': 'wrong' } }), 'access token present in header but does not match')
  assert.equal(await refusal(`${apiUrl}/files?path=who`, { headers }), 'missing signature query parameter')
})

test('a sandbox that is gone serves no URL', async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 600_000 })
  await sandbox.files.write('who', 'three')
  const url = await sandbox.downloadUrl('who')
  assert.equal(await text(url), 'three')
  await sandbox.kill()
  assert.match(await refusal(url), /invalid signature/)
})
