// Attack cases 9, 10, 15-20, 59, 60, 63, 68: where names decide.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { api, at, Guest, logged, restricted, setPolicy, World } from './world.mjs'
import { clientHello, verdict } from './hello.mjs'

const gateway = '10.77.0.1'
let world, narrow, open
before(async () => {
  world = await World.open()
  narrow = await Guest.create(restricted('allowed.example.com'))
  open = await Guest.create({ mode: 'allow_all' })
})
after(async () => {
  await Promise.all([narrow?.kill(), open?.kill()])
  await world?.close()
})

const hex = (text) => Buffer.from(text, 'latin1').toString('hex')
const request = (lines) => hex(`${lines.join('\r\n')}\r\nConnection: close\r\n\r\n`)
const refused = (answer) => assert.ok(['reset', 'refused'].includes(answer.result), JSON.stringify(answer))
const pin = (name = 'allowed.example.com') => narrow.probe('dns', gateway, name, 'A')
const status = (answer) => Number(/^HTTP\/1\.1 (\d+)/.exec(answer.data ?? '')?.[1] ?? 0)
const hello = (address, words, piece = 4096, delay = 0) => narrow.probe('hello', address, 443, clientHello(words), piece, delay)

test('9 an allowed name in the Host of a request to an address that never was its', async () => {
  await world.forget()
  const answer = await narrow.probe('tcp', at.attacker, 80, request(['GET / HTTP/1.1', 'Host: allowed.example.com']))
  assert.notEqual(status(answer), 200)
  assert.deepEqual((await world.seen()).requests.filter(({ to }) => to === at.attacker), [])
  await world.nothingLeftFor(at.attacker)
  await pin()
  assert.equal(status(await narrow.probe('tcp', at.allowed, 80, request(['GET / HTTP/1.1', 'Host: allowed.example.com']))), 200, 'control')
})

test('10 an allowed server name sent to the attacker: he sees nothing', async () => {
  await world.forget()
  assert.notEqual(verdict(await hello(at.attacker, { names: ['allowed.example.com'] })), 'served')
  const answer = await api('PUT', `/sandboxes/${narrow.sandboxId}/network`, { allowOut: ['allowed.example.com'], denyOut: ['0.0.0.0/0'] })
  assert.equal(answer.status, 204, await answer.text())
  const reached = await narrow.probe('tls', at.attacker, 443, 'allowed.example.com')
  assert.match(reached.data, /"to":"45\.0\.2\.10"/, 'as E2B does it, the real one is reached')
  assert.deepEqual((await world.seen()).requests.filter(({ to }) => to === at.attacker), [])
  await world.nothingLeftFor(at.attacker)
  await setPolicy(narrow, restricted('allowed.example.com'))
})

test('15 an absolute target must be its Host', async () => {
  await pin()
  const absolute = (target) => narrow.probe('tcp', at.allowed, 80, request([`GET ${target} HTTP/1.1`, 'Host: allowed.example.com']))
  assert.equal(status(await absolute('http://other.example.com/')), 400)
  assert.equal(status(await absolute('http://allowed.example.com/')), 200)
})

for (const [what, lines, expected] of [
  ['two Hosts', ['Host: allowed.example.com', 'Host: other.example.com'], 400],
  ['the same Host twice', ['Host: allowed.example.com', 'Host: allowed.example.com'], 400],
  ['user information', ['Host: user@allowed.example.com'], 400],
  ['a tab inside', ['Host: allowed\t.example.com'], 400],
  ['a trailing dot and dot', ['Host: allowed.example.com..'], 400],
  ['upper case', ['Host: ALLOWED.Example.COM'], 200],
  ['a trailing dot', ['Host: allowed.example.com.'], 200],
  ['the default port', ['Host: allowed.example.com:80'], 200],
])
  test(`16 ${what}: ${expected}`, async () => {
    await pin()
    await world.forget()
    assert.equal(status(await narrow.probe('tcp', at.allowed, 80, request(['GET / HTTP/1.1', ...lines]))), expected)
    assert.equal((await world.seen()).requests.length, expected === 200 ? 1 : 0)
  })

for (const [what, names, expected] of [
  ['allowed', ['allowed.example.com'], 'served'], ['with a trailing dot', ['allowed.example.com.'], 'served'], ['in upper case', ['ALLOWED.example.com'], 'served'],
  ['none', [], 'denied'], ['empty', [''], 'denied'], ['an address', [at.allowed], 'denied'], ['of 300 bytes', [`${'a'.repeat(60)}.`.repeat(5)], 'denied'],
  ['two', ['allowed.example.com', 'other.example.com'], 'denied'], ['not ASCII', ['\xe4llowed.example.com'], 'denied'], ['with a NUL', ['allowed.example.com\0.evil.com'], 'denied'],
  ['a star', ['*.example.com'], 'denied'],
])
  test(`17 a server name ${what}: ${expected}`, async () => {
    await pin()
    assert.equal(verdict(await hello(at.allowed, { names })), expected)
  })

test('17 without a name an address rule decides', async () => {
  await setPolicy(narrow, restricted(`${at.allowed}/32`))
  assert.equal(verdict(await hello(at.allowed, {})), 'served')
  await setPolicy(narrow, restricted('allowed.example.com'))
})

test('18 one byte at a time, in three records: decided as in one', async () => {
  await pin()
  assert.equal(verdict(await hello(at.allowed, { names: ['allowed.example.com'] }, 1, 0.002)), 'served')
  assert.equal(verdict(await hello(at.allowed, { names: ['allowed.example.com'], records: 3 })), 'served')
  assert.equal(verdict(await hello(at.allowed, { names: ['blocked.example.net'], records: 3 }, 1, 0.002)), 'denied')
})

test('18 one that is too long or never whole is closed', async () => {
  await pin()
  assert.notEqual(verdict(await hello(at.allowed, { names: ['allowed.example.com'], padding: 20_000 })), 'served')
  const half = clientHello({ names: ['allowed.example.com'] }).slice(0, 60)
  const answer = await narrow.probe('hello', at.allowed, 443, half, 4096, 0)
  assert.ok(['reset', 'closed'].includes(answer.result), JSON.stringify(answer)) // by the gateway, before the probe's own 20 s
})

test('19 with an ECH extension the outer name decides', async () => {
  await pin()
  assert.equal(verdict(await hello(at.allowed, { names: ['allowed.example.com'], ech: true })), 'served')
  assert.equal(verdict(await hello(at.allowed, { names: ['blocked.example.net'], ech: true })), 'denied')
})

test('20 DNS over HTTPS is a destination like any other', async () => {
  assert.notEqual(verdict(await hello('1.1.1.1', { names: ['cloudflare-dns.com'] })), 'served')
  assert.notEqual(verdict(await hello('1.1.1.1', {})), 'served')
  assert.match((await open.probe('tls', '1.1.1.1', 443, 'dns.example.com')).data, /"to":"1\.1\.1\.1"/)
})

for (const name of ['xallowed.example.com', 'allowed.example.com.evil.com', 'allowed.example.com%00.evil.com', 'аllowed.example.com', 'allowed-example.com'])
  test(`59 ${JSON.stringify(name)} is not allowed.example.com`, async () => {
    await pin()
    const ascii = Buffer.from(name, 'utf8').toString('latin1')
    assert.equal(verdict(await hello(at.allowed, { names: [ascii] })), 'denied')
    assert.ok([400, 403].includes(status(await narrow.probe('tcp', at.allowed, 80, request(['GET / HTTP/1.1', `Host: ${ascii}`])))))
  })

test('60 a wildcard is for what is below it', async () => {
  await setPolicy(narrow, restricted('*.wild.example.com'))
  for (const name of ['a.wild.example.com', 'a.b.wild.example.com', 'wild.example.com']) await pin(name)
  for (const [name, expected] of [['a.b.wild.example.com', 'served'], ['wild.example.com', 'denied'], ['.wild.example.com', 'denied'], ['*.wild.example.com', 'denied']])
    assert.equal(verdict(await hello(at.allowed, { names: [name] })), expected, name)
  await setPolicy(narrow, restricted('allowed.example.com'))
})

test('63 68 a name with a port opens that port of its own addresses, and the server speaks first', async () => {
  await setPolicy(narrow, restricted({ host: 'allowed.example.com', ports: [22] }))
  refused(await narrow.probe('tcp', at.attacker, 22, '', 5))
  await pin()
  assert.match((await narrow.probe('tcp', at.allowed, 22, '', 1)).data, /^SSH-2\.0-Internet/)
  refused(await narrow.probe('tcp', at.attacker, 22, '', 5))
  await logged(narrow, { address: at.attacker, port: 22, allowed: false })
  await setPolicy(narrow, restricted('allowed.example.com'))
})

test('every request of a connection is judged, pipelined ones too', async () => {
  await pin()
  await world.forget()
  const two = (second) => hex(`GET /1 HTTP/1.1\r\nHost: allowed.example.com\r\n\r\nGET /2 HTTP/1.1\r\nHost: ${second}\r\nConnection: close\r\n\r\n`)
  const mixed = await narrow.probe('tcp', at.allowed, 80, two('blocked.example.net'))
  assert.ok((mixed.data.match(/HTTP\/1\.1 \d+/g) ?? []).length >= 1)
  assert.deepEqual((await world.seen()).requests.filter(({ url }) => url === '/2'), [])
  const both = await narrow.probe('tcp', at.allowed, 80, two('allowed.example.com'))
  assert.equal((both.data.match(/HTTP\/1\.1 200/g) ?? []).length, 2)
})

test('CONNECT and HTTP/2 in clear are refused', async () => {
  await pin()
  assert.ok([400, 403].includes(status(await narrow.probe('tcp', at.allowed, 80, request(['CONNECT allowed.example.com:22 HTTP/1.1', 'Host: allowed.example.com'])))))
  assert.notEqual((await narrow.probe('tcp', at.allowed, 80, hex('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'))).data?.[0], '\0')
})

test('a denial explains itself the same way everywhere', async () => {
  await pin()
  const answer = await narrow.probe('tcp', at.allowed, 80, request(['GET /secret?x=1 HTTP/1.1', 'Host: blocked.example.net']))
  const body = JSON.parse(answer.data.slice(answer.data.indexOf('\r\n\r\n') + 4))
  assert.equal(body.error, 'egress_denied')
  assert.equal(body.reason, 'deny_mode')
  assert.equal(body.host, 'blocked.example.net')
  assert.equal((await narrow.probe('dns', gateway, 'blocked.example.net', 'A')).text.split(' ')[0].replace(/:$/, ''), 'deny_mode')
  await logged(narrow, { kind: 'http', host: 'blocked.example.net', reason: 'deny_mode' })
  const told = await (await api('POST', `/v1/sandboxes/${narrow.sandboxId}/egress/test`, { url: 'http://blocked.example.net/' })).json()
  assert.deepEqual([told.allowed, told.reason], [false, 'deny_mode'])
})
