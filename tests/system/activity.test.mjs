// Activity of a sandbox on a real VM: what keeps it in use, that nothing else does, and what its programs may ask of
// guest.sock. Every case shows in the same run both that it can be seen and that it ends.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Sandbox, api, dataPlaneHeaders, until } from '../e2b/sdk.mjs'

let sandbox
before(async () => { sandbox = await Sandbox.create({ timeoutMs: 600_000 }) })
after(async () => { await sandbox?.kill() })

async function stats() {
  const answer = await api('GET', `/v1/sandboxes/${sandbox.sandboxId}/stats`)
  assert.equal(answer.status, 200)
  return answer.json()
}
const activity = async () => (await stats()).activity
const becomes = (what, probe) => until(async () => probe(await activity()), what, 90_000)
const becomesIdle = () => becomes('idle', (now) => now.reasons.length === 0 && now.streams === 0 && now.idleSeconds >= 10)
const sh = async (command, options = {}) => (await sandbox.commands.run(command, options)).stdout.trim()

// One request on guest.sock, as a program of the sandbox makes it; answers the status.
const local = (method, path, body = '') => sh(
  `curl -s -o /tmp/local.out -w '%{http_code}' --unix-socket /run/space/guest.sock -X ${method} -d '${body}' http://localhost${path}`)

test('a sandbox nobody uses becomes idle; looking at it is no use', async () => {
  await sh('true')
  const used = await activity()
  assert.ok(used.reasons.includes('traffic') && used.idleSeconds < 10, JSON.stringify(used))
  assert.ok(used.bytesIn > 0 && used.bytesOut > 0)
  await becomesIdle()
  const { stats: figures, vmm, activity: idle } = await stats()
  assert.ok(Date.parse(idle.lastActiveAt) <= Date.now() - 10_000)
  assert.ok(figures.memTotal > figures.memUsed && figures.memUsed > 0 && figures.diskTotal > figures.diskUsed && figures.cpuCount === 1, JSON.stringify(figures))
  assert.ok(vmm.cpuUs > 0 && vmm.rss > 0, JSON.stringify(vmm))
})

test('an API call is use', async () => {
  const before = await activity()
  assert.equal((await api('POST', `/sandboxes/${sandbox.sandboxId}/timeout`, { timeout: 600 })).status, 204)
  await becomes('called', (now) => now.reasons.includes('call') && Date.parse(now.lastActiveAt) > Date.parse(before.lastActiveAt))
})

test('a lease keeps it in use until it runs out', async () => {
  assert.equal(await local('PUT', '/leases/nightly-build', '{"seconds":20}'), '204')
  await becomes('held by its lease alone', (now) => now.reasons.join() === 'lease' && now.idleSeconds === 0 && now.leases[0]?.name === 'nightly-build')
  await becomes('idle again', (now) => now.reasons.length === 0 && now.leases.length === 0)
})

test('a busy loop that nobody is attached to keeps it in use', async () => {
  const pid = await sh("setsid python3 -c 'while True: pass' > /dev/null 2>&1 < /dev/null & echo $!")
  await becomes('in use by its processor alone', (now) => now.reasons.join() === 'cpu' && now.streams === 0)
  const { stats: figures } = await stats()
  assert.ok(figures.cpuUsedPct > 1 && figures.cpuUsedPct <= 100 && figures.tasks >= 1, JSON.stringify(figures))
  await sh(`kill -9 ${pid}`)
  await becomes('no processor used', (now) => !now.reasons.includes('cpu'))
})

test('an open stream is use, until it is closed', async () => {
  const command = await sandbox.commands.run('sleep 600', { background: true })
  await becomes('streaming', (now) => now.streams >= 1 && now.reasons.includes('stream') && now.idleSeconds === 0)
  await command.kill()
  await becomes('no stream', (now) => now.streams === 0)
})

test('bytes are counted either way', async () => {
  const before = await activity()
  await sandbox.files.write('/tmp/up', 'u'.repeat(300_000))
  const sent = await activity()
  assert.ok(sent.bytesIn - before.bytesIn >= 300_000, JSON.stringify(sent))
  await sandbox.files.read('/tmp/up')
  assert.ok((await activity()).bytesOut > before.bytesOut)
})

test('a wake-up time is reported until it is taken back', async () => {
  assert.equal(await local('PUT', '/wake', '{"after_seconds":3600}'), '200')
  const { at } = JSON.parse(await sh('cat /tmp/local.out'))
  await becomes('to be woken', (now) => now.wakeAt === at)
  assert.equal(await local('PUT', '/wake', '{"at":"2001-01-01T00:00:00Z"}'), '400')
  assert.equal(await local('DELETE', '/wake'), '204')
  await becomes('not to be woken', (now) => now.wakeAt === null)
})

test("the daemon's API is on the guest's loopback and wants the token", async () => {
  assert.equal(await sh("curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:49983/health"), '204')
  assert.equal(await sh("curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:49983/envs"), '401')
  const token = (await dataPlaneHeaders(sandbox))['X-Access-Token']
  assert.equal(await sh(`curl -s -o /dev/null -w '%{http_code}' -H 'X-Access-Token: ${token}' http://127.0.0.1:49983/envs`), '200')
})

test('a flood of guest.sock takes nothing but its own time', async () => {
  const rss = async () => Number(await sh("awk '/VmRSS/ {print $2}' /proc/1/status", { user: 'root' }))
  const before = await rss()
  const flood = `
import socket, os
path = '/run/space/guest.sock'
def connect():
    s = socket.socket(socket.AF_UNIX); s.settimeout(30); s.connect(path); return s
names = 0
s = connect()
for i in range(2000):
    body = b'{"seconds":3600}'
    s.sendall(b'PUT /leases/flood-%d HTTP/1.1\\r\\nHost: l\\r\\nContent-Length: %d\\r\\n\\r\\n' % (i, len(body)) + body)
    answer = s.recv(4096)
    names += answer.startswith(b'HTTP/1.1 204')
s.close()
silent = []
for i in range(60):
    c = socket.socket(socket.AF_UNIX); c.setblocking(False)
    try: c.connect(path); c.send(os.urandom(2000) if i % 2 else b'PUT /leases/x HTTP/1.1\\r\\nContent-Length: 99999999\\r\\n\\r\\n'); silent.append(c)
    except BlockingIOError: pass
print(names, len(silent) > 16)
`
  await sandbox.files.write('/tmp/flood.py', flood)
  assert.equal(await sh('python3 /tmp/flood.py'), '64 True')
  assert.ok((await rss()) - before < 16 * 1024, `daemon grew from ${before} to ${await rss()} KiB`)
  await becomes('holding no more than it may', (now) => now.leases.length === 64)
  assert.equal(await local('DELETE', '/leases/flood-0'), '204')
  await becomes('one less', (now) => now.leases.length === 63)
})
