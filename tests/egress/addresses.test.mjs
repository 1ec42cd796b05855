// Attack cases 1, 8, 29-31, 61, 62: where addresses alone decide.
import assert from 'node:assert/strict'
import net from 'node:net'
import { after, before, test } from 'node:test'
import { api, at, egress, Guest, logged, restricted, setPolicy, World } from './world.mjs'

let world, open, narrow
before(async () => {
  world = await World.open()
  open = await Guest.create({ mode: 'allow_all' })
  narrow = await Guest.create(restricted('allowed.example.com'))
})
after(async () => {
  await Promise.all([open?.kill(), narrow?.kill()])
  await world?.close()
})

const get = (host) => Buffer.from(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`).toString('hex')
const refused = (answer) => assert.ok(['reset', 'refused'].includes(answer.result), JSON.stringify(answer))

test('control: what is allowed arrives, and is seen on the uplink', async () => {
  const answer = await open.probe('tcp', at.allowed, 80, get('any'))
  assert.match(answer.data, /"to":"45\.0\.2\.10"/)
  assert.ok(world.capture.packets.some((packet) => packet.target === at.allowed && packet.targetPort === 80))
  await logged(open, { address: at.allowed, port: 80, allowed: true })
})

for (const address of ['169.254.169.254', '10.9.9.9', '172.16.9.9', '192.168.9.9', '100.64.9.9', '168.63.129.16', '198.18.9.9', 'fd00:ec2::254', '::ffff:10.9.9.9', '64:ff9b::a09:909', '2002:a09:909::1'])
  test(`1 ${address} is reset, said to be the platform's denial, and no packet leaves`, async () => {
    await world.forget()
    const answer = await open.probe('tcp', address, 80, get('any'), 5)
    if (address.startsWith('::ffff:')) assert.notEqual(answer.result, 'closed') // most kernels send IPv4 for it
    else refused(answer)
    await world.nothingLeftFor(address.replace('::ffff:', ''))
    if (!address.includes('ffff')) await logged(open, { address, port: 80, allowed: false, reason: 'deny_platform' })
  })

for (const host of ['2130706433', '0x7f.1', '0177.0.0.1', '127.1', '[::1]', '[fe80::1%25eth0]', '127.0.0.1'])
  test(`8 a request for the host ${host} is refused, a proper one is not`, async () => {
    await world.forget()
    await narrow.probe('dns', '10.77.0.1', 'allowed.example.com', 'A')
    const answer = await narrow.probe('tcp', at.allowed, 80, get(host))
    assert.match(answer.data, /^HTTP\/1\.1 (400|403) /, JSON.stringify(answer))
    assert.deepEqual((await world.seen()).requests, [])
    assert.match((await narrow.probe('tcp', at.allowed, 80, get('allowed.example.com'))).data, /^HTTP\/1\.1 200 /)
  })

for (const port of [4000, 5353, 22, 80])
  test(`29 the gateway's own port ${port} is a destination like any other, and denied`, async () => {
    for (const address of ['10.77.0.1', 'fd53:5041:4345::1']) {
      refused(await open.probe('tcp', address, port, '', 5))
      await logged(open, { address, port, allowed: false, reason: 'deny_platform' })
    }
  })

test("30 the host's own addresses are denied, though something listens there", async () => {
  let connections = 0
  const server = net.createServer((socket) => { ++connections; socket.end('host') })
  await new Promise((resolve) => server.listen(0, '::', resolve))
  const { port } = server.address()
  try {
    for (const address of ['45.0.0.1', '2a0d:45:1::1']) {
      refused(await open.probe('tcp', address, port, '', 5))
      await logged(open, { address, port, allowed: false, reason: 'deny_platform' })
    }
    assert.equal(connections, 0)
    await new Promise((resolve, reject) => net.connect(port, '45.0.0.1').once('data', resolve).once('error', reject))
    assert.equal(connections, 1, 'control: it does listen')
  } finally {
    server.close()
  }
})

test('31 IPv6 gets the decision of IPv4', async () => {
  for (const address of [at.blocked, at.blocked6]) {
    refused(await narrow.probe('tcp', address, 9999, '', 5))
    await logged(narrow, { address, port: 9999, allowed: false, reason: 'deny_mode' })
  }
  for (const address of [at.allowed, at.allowed6]) assert.match((await open.probe('tcp', address, 80, get('any'))).data, /200 OK/)
})

test('61 CIDR rules end where they end, and the platform is stronger', async () => {
  await setPolicy(narrow, restricted('45.0.2.10/31', '0.0.0.0/0', '::/0'))
  refused(await narrow.probe('tcp', '169.254.169.254', 80, get('any'), 5))
  refused(await narrow.probe('tcp', 'fd00:ec2::254', 80, get('any'), 5))
  await setPolicy(narrow, restricted('45.0.2.10/31'))
  for (const address of ['45.0.2.10', '45.0.2.11']) assert.match((await narrow.probe('tcp', address, 7, Buffer.from('x').toString('hex'), 1)).data, /^x/)
  refused(await narrow.probe('tcp', '45.0.2.20', 7, '', 5))
  const { generation } = await egress(narrow)
  for (const [cidr, nearest] of [['45.0.2.10/24', '45.0.2.0/24'], ['2a0d:45::10/64', '2a0d:45::/64']]) {
    const answer = await api('PUT', `/v1/sandboxes/${narrow.sandboxId}/egress`, restricted(cidr))
    assert.equal(answer.status, 400)
    assert.ok((await answer.text()).includes(nearest))
  }
  assert.equal((await egress(narrow)).generation, generation)
  await setPolicy(narrow, restricted('allowed.example.com'))
})

for (const port of [25, 6667, 9001, 22])
  test(`62 port ${port} without a rule is reset`, async () => {
    await world.forget()
    await narrow.probe('dns', '10.77.0.1', 'allowed.example.com', 'A')
    refused(await narrow.probe('tcp', at.allowed, port, '', 5))
    assert.deepEqual((await world.seen()).connections, [])
    if (port !== 25) assert.equal((await open.probe('tcp', at.allowed, port, '00', 1)).result, 'timeout', 'control: it is open to who may')
  })

test('62 mail is denied also where all is allowed, until a rule says otherwise', async () => {
  refused(await open.probe('tcp', at.allowed, 25, '', 5))
  await setPolicy(open, { mode: 'allow_all', allow: [{ cidr: `${at.allowed}/32`, ports: [25] }] })
  assert.match((await open.probe('tcp', at.allowed, 25, '', 1)).data, /^220 mail/)
  await setPolicy(open, { mode: 'allow_all' })
})
