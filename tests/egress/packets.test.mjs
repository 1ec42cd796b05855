// Attack cases 21, 26-28, 32, 69: what is no proper connection, and too much of what is.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { after, before, test } from 'node:test'
import { daemon } from '../system/machine.mjs'
import { at, egress, Guest, restricted, setPolicy, until, World } from './world.mjs'

let world, guest, neighbour
before(async () => {
  world = await World.open()
  guest = await Guest.create({ mode: 'allow_all' })
  neighbour = await Guest.create({ mode: 'allow_all' })
})
after(async () => {
  await Promise.all([guest?.kill(), neighbour?.kill()])
  await world?.close()
})

const atOnce = ['EHOSTUNREACH', 'EACCES', 'refused', 'EPERM', 'ENETUNREACH']
const served = async (who) => assert.match((await who.run(`curl -sS -m 20 http://${at.allowed}/`)).stdout, /"to":"45\.0\.2\.10"/)
const descriptors = () => fs.readdirSync(`/proc/${daemon('space-netd').pid}/fd`).length
const residentMib = () => Number(/^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${daemon('space-netd').pid}/status`, 'utf8'))[1]) / 1024

for (const [number, what, port] of [[21, 'DNS over QUIC', 853], [21, 'mDNS', 5353], [26, 'QUIC', 443], [26, 'time', 123], [21, 'any other', 9999]])
  test(`${number} ${what}, UDP ${port}, is refused at once and never leaves`, async () => {
    await world.forget()
    for (const address of [at.allowed, at.allowed6]) {
      const answer = await guest.probe('udp', address, port, '00', 10)
      assert.ok(atOnce.includes(answer.result), JSON.stringify(answer)) // an error of the kernel, no timeout
    }
    await world.nothingLeftFor(at.allowed)
    assert.deepEqual((await world.seen()).datagrams, [])
  })

test('21 DNS over TLS without a rule is reset', async () => {
  await setPolicy(neighbour, restricted('allowed.example.com'))
  assert.equal((await neighbour.probe('tcp', '1.1.1.1', 853, '00', 5)).result, 'reset')
  await setPolicy(neighbour, { mode: 'allow_all' })
  assert.equal((await neighbour.probe('tcp', '1.1.1.1', 853, '00', 1)).result, 'timeout', 'control: it is open to who may')
})

for (const protocol of [2, 4, 41, 47, 50, 132, 255])
  test(`27 IP protocol ${protocol} goes nowhere`, async () => {
    await world.forget()
    const answer = await guest.probe('raw', at.allowed, protocol, '00'.repeat(16))
    assert.notEqual(answer.result, 'answer')
    await world.nothingLeftFor(at.allowed)
  })

test('27 28 fragments, options and false sources go nowhere, and nobody else is disturbed', async () => {
  await world.forget()
  const { stdout } = await guest.run(`python3 - <<'EOF'
import socket, struct
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
target = "${at.allowed}"
def send(source, protocol, data, fragment=0, options=b""):
    words = 5 + len(options) // 4
    head = struct.pack(">BBHHHBBH4s4s", 0x40 | words, 0, words * 4 + len(data), 77, fragment, 64, protocol, 0, socket.inet_aton(source), socket.inet_aton(target)) + options
    try: raw.sendto(head + data, (target, 0)); return 1
    except OSError: return 0
sent = 0
for source in ("1.2.3.4", "10.77.0.1", "127.0.0.1", "45.0.2.66"):
    sent += send(source, 17, struct.pack(">HHHH", 9, 9999, 9, 0) + b"x")
    sent += send(source, 6, struct.pack(">HHIIHHHH", 9, 80, 1, 0, 0x5002, 1024, 0, 0))
sent += send("10.77.0.2", 17, b"x" * 24, fragment=0x2000)
sent += send("10.77.0.2", 17, b"x" * 24, fragment=0x0001)
sent += send("10.77.0.2", 17, b"x" * 24, options=bytes([131, 7, 4, 45, 0, 2, 66, 0]))
frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
frames.bind(("eth0", 0))
mine = bytes.fromhex(open("/sys/class/net/eth0/address").read().strip().replace(":", ""))
arp = lambda operation, mac, ip: b"\\xff" * 6 + mac + struct.pack(">HHHBBH", 0x0806, 1, 0x0800, 6, 4, operation) + mac + socket.inet_aton(ip) + b"\\0" * 6 + socket.inet_aton(ip)
for number in range(20000):
    try: frames.send(arp(1 + number % 2, bytes([2, 0, 0, 0, number >> 8 & 255, number & 255]), "10.77.0.1")); sent += 1
    except OSError: pass
router = b"\\x33\\x33\\0\\0\\0\\1" + mine + b"\\x86\\xdd" + struct.pack(">IHBB", 0x60000000, 16, 58, 255) + socket.inet_pton(socket.AF_INET6, "fe80::1") + socket.inet_pton(socket.AF_INET6, "ff02::1") + bytes([134, 0]) + b"\\0" * 14
frames.send(router)
print(sent)
EOF`)
  assert.ok(Number(stdout) > 1_000, stdout)
  await served(neighbour)
  await served(guest)
  await world.capture.seesOurOwn()
  assert.deepEqual(world.capture.packets.filter((packet) => ![at.resolver, '45.0.0.1', at.allowed].includes(packet.target) && !packet.target.startsWith('ff') && !packet.target.startsWith('fe80') && !packet.target.startsWith('2a0d:45:1')), [])
  assert.ok(world.capture.packets.filter((packet) => packet.target === at.allowed).every((packet) => packet.protocol === 6 && packet.targetPort === 80 && packet.source === '45.0.0.1'))
})

test('32 more connections than the policy says are refused; memory is bounded; the neighbour is served', async () => {
  await setPolicy(guest, { mode: 'allow_all', limits: { conns: 200, new_conns_per_s: 5000 } })
  const holding = guest.run(`python3 - <<'EOF'
import resource, socket, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
held, refused = [], 0
for number in range(2000):
    connection = socket.socket()
    connection.settimeout(5)
    try:
        connection.connect(("${at.allowed}", 7))
        connection.send(b"x")
        held.append(connection)
    except OSError: refused += 1
alive = 0
for connection in held:
    try: alive += connection.recv(1) == b"x"
    except OSError: refused += 1
print(alive, refused, flush=True)
time.sleep(5)
EOF`)
  for (let i = 0; i < 3; ++i) await served(neighbour)
  const [alive, refused] = (await holding).stdout.trim().split(' ').map(Number)
  assert.ok(alive <= 200 && alive >= 150, `${alive} lived`)
  assert.ok(refused >= 1_700, `${refused} were refused`)
  assert.ok(residentMib() < 256, `${residentMib()} MiB`)
  await until(async () => (await egress(guest)).counters.flows === 0, 'its flows end')
  await setPolicy(guest, { mode: 'allow_all' })
  await served(guest)
})

test('32 a flood of SYNs and heads that trickle cost the neighbour nothing', async () => {
  await setPolicy(guest, restricted('allowed.example.com'))
  await guest.probe('dns', '10.77.0.1', 'allowed.example.com', 'A')
  const flood = guest.run(`python3 - <<'EOF'
import socket, time
slow = []
for number in range(100):
    connection = socket.socket()
    connection.settimeout(2)
    try: connection.connect(("${at.allowed}", 80)); connection.send(b"GET / HT"); slow.append(connection)
    except OSError: pass
end = time.monotonic() + 12
opened = 0
while time.monotonic() < end:
    connection = socket.socket()
    connection.setblocking(False)
    try: connection.connect(("${at.attacker}", 9000 + opened % 999))
    except BlockingIOError: pass
    except OSError: pass
    connection.close()
    opened += 1
closed = 0
for connection in slow:
    try: closed += connection.recv(65536) == b"" or True
    except TimeoutError: pass
    except OSError: closed += 1
print(len(slow), closed, opened)
EOF`)
  for (let i = 0; i < 5; ++i) await served(neighbour)
  const [slow, closed, opened] = (await flood).stdout.trim().split(' ').map(Number)
  assert.ok(opened > 1_000)
  assert.equal(closed, slow, 'a head that is not there after 10 s is waited for no longer')
  await setPolicy(guest, { mode: 'allow_all' })
})

test('69 half-close goes through, both ways, and a reset too', async () => {
  const { stdout } = await guest.run(`python3 - <<'EOF'
import socket, struct
connection = socket.create_connection(("${at.allowed}", 7), 10)
connection.send(b"hello")
assert connection.recv(5) == b"hello"
connection.shutdown(socket.SHUT_WR)
rest = b""
while True:
    piece = connection.recv(100)
    if not piece: break
    rest += piece
print(rest.decode())
gone = socket.create_connection(("${at.allowed}", 7), 10)
gone.send(b"x"); gone.recv(1)
gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
gone.close()
EOF`)
  assert.equal(stdout.trim(), 'bye')
  await until(async () => (await egress(guest)).counters.flows === 0, 'both are over')
})

test('69 8,000 connections opened and closed leave no descriptor and no memory', async () => {
  await setPolicy(guest, { mode: 'allow_all', limits: { conns: 1000, new_conns_per_s: 10_000 } })
  const round = (count) => guest.run(`python3 - <<'EOF'
import socket
done = 0
for number in range(${count}):
    try:
        connection = socket.create_connection(("${at.allowed}", 7), 10)
        connection.send(b"x")
        done += connection.recv(1) == b"x"
        connection.close()
    except OSError: pass
print(done)
EOF`, { timeoutMs: 600_000 })
  await round(200)
  await until(async () => (await egress(guest)).counters.flows === 0, 'the first are over')
  const before = descriptors(), memory = residentMib()
  const done = Number((await round(8_000)).stdout)
  assert.ok(done > 7_900, `${done} of 8,000`)
  await until(async () => (await egress(guest)).counters.flows === 0, 'all are over')
  await until(() => descriptors() <= before, `descriptors are ${before} again`, 20_000)
  assert.ok(residentMib() < memory + 32, `${memory} -> ${residentMib()} MiB`)
})
