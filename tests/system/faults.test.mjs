// What a guest, its root and the clients can do wrong: each gets an error or a clear message in bounded time, harms
// nobody else, and leaves nothing. Faults of the host: host_faults.test.mjs.
import assert from 'node:assert/strict'
import net from 'node:net'
import { after, afterEach, before, test } from 'node:test'
import { api, apiUrl, dataPlaneHeaders, failure, rawConnection, rawRequest, Sandbox, sleep, until } from '../e2b/sdk.mjs'
import { qemuOf, quietTable, residentMib, settled } from './machine.mjs'

let witness, table
before(async () => {
  table = await quietTable()
  witness = await Sandbox.create({ timeoutMs: 1_800_000 })
})
after(async () => {
  await witness?.kill()
  await settled(table)
})
// Whatever happened before: the others are served and a new sandbox can be made.
afterEach(async () => {
  assert.equal((await witness.commands.run('echo served')).stdout, 'served\n')
  await inFresh(async (fresh) => assert.equal((await fresh.commands.run('echo fine')).stdout, 'fine\n'))
})

async function inFresh(use) {
  const sandbox = await Sandbox.create({ timeoutMs: 600_000 })
  try {
    await use(sandbox)
  } finally {
    assert.equal(await Sandbox.kill(sandbox.sandboxId), true)
  }
}
const stdout = async (sandbox, command, options) => (await sandbox.commands.run(command, options)).stdout

test('a full disk in the guest: 507 that says so, commands run on, freeing helps', () => inFresh(async (sandbox) => {
  await sandbox.commands.run('dd if=/dev/zero of=/filler bs=1M 2>/dev/null; sync', { user: 'root', timeoutMs: 300_000 }).catch(() => {})
  assert.equal(await stdout(sandbox, "df --output=avail / | tail -1 | tr -d ' '"), '0\n')
  const error = await failure(sandbox.files.write('/home/user/big', 'x'.repeat(3 * 1024 * 1024)))
  assert.equal(error.constructor.name, 'NotEnoughSpaceError')
  const form = new FormData()
  form.append('file', new Blob(['x'.repeat(3 * 1024 * 1024)]), 'big')
  const raw = await fetch(`${apiUrl}/files?path=/home/user/big2&username=user`, { method: 'POST', headers: await dataPlaneHeaders(sandbox), body: form })
  assert.equal(raw.status, 507)
  assert.equal((await raw.json()).code, 507)
  assert.equal(await stdout(sandbox, 'echo alive'), 'alive\n')
  await sandbox.commands.run('rm /filler', { user: 'root' })
  await sandbox.files.write('/home/user/big', 'x'.repeat(3 * 1024 * 1024))
  assert.equal(await stdout(sandbox, 'stat -c %s /home/user/big'), '3145728\n')
}))

test('a fork bomb ends at the limits of the user: its commands fail, then work again', () => inFresh(async (sandbox) => {
  const bomb = await sandbox.commands.run('bomb() { bomb | bomb & }; bomb; sleep 600', { background: true, timeoutMs: 0 })
  bomb.wait().catch(() => {})
  await sleep(3_000)
  assert.equal(await Promise.race([sandbox.isRunning(), sleep(30_000)]), true)
  await until(() => sandbox.commands.run('kill -9 -1', { timeoutMs: 20_000 }).then(() => true, (error) => /killed/.test(error.message)), 'the user ends the bomb', 120_000)
  await until(() => stdout(sandbox, 'echo alive', { timeoutMs: 20_000 }).then((text) => text === 'alive\n', () => false), 'commands run again', 120_000)
}))

test('a memory bomb is killed, the daemon is not', () => inFresh(async (sandbox) => {
  const error = await failure(sandbox.commands.run("python3 -c 'x = [bytearray(1 << 20) for _ in range(4096)]'", { timeoutMs: 240_000 }))
  console.log(`# ${error.message}`)
  assert.notEqual(error.exitCode, 0)
  assert.equal(await stdout(sandbox, 'echo alive', { timeoutMs: 60_000 }), 'alive\n')
}))

test('200 commands at once each get their own answer', () => inFresh(async (sandbox) => {
  const results = await Promise.all(Array.from({ length: 200 }, (_, i) => stdout(sandbox, `echo ${i}`, { timeoutMs: 240_000, requestTimeoutMs: 240_000 })))
  results.forEach((text, i) => assert.equal(text, `${i}\n`))
}))

// An answer of which only the head is read: what follows backs up to the program that writes it.
async function stalledReader(sandbox, command) {
  const { hostname, port } = new URL(apiUrl)
  const socket = net.connect(Number(port), hostname)
  const message = Buffer.from(JSON.stringify({ process: { cmd: '/bin/sh', args: ['-c', command] }, stdin: false }))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  const headers = { ...(await dataPlaneHeaders(sandbox)), 'Content-Type': 'application/connect+json', 'Connect-Protocol-Version': '1' }
  socket.write(`POST /process.Process/Start HTTP/1.1\r\nHost: 127.0.0.1\r\n${Object.entries(headers).map(([k, v]) => `${k}: ${v}\r\n`).join('')}Content-Length: ${5 + message.length}\r\n\r\n`)
  socket.write(Buffer.concat([head, message]))
  await new Promise((resolve) => socket.once('data', resolve))
  socket.pause()
  return socket
}

test('endless output to readers that stall: nobody stores it, others are served', () => inFresh(async (sandbox) => {
  const before = residentMib()
  const sockets = await Promise.all(Array.from({ length: 20 }, () => stalledReader(sandbox, 'exec cat /dev/zero')))
  await sleep(15_000)
  const during = residentMib()
  console.log(`# resident MiB before ${JSON.stringify(before)}, after ${JSON.stringify(during)}`)
  for (const name of Object.keys(before)) assert.ok(during[name] < before[name] + 100, `${name} grew to ${during[name]} MiB`)
  assert.equal(await stdout(witness, 'echo served'), 'served\n')
  for (const socket of sockets) socket.destroy()
  await sandbox.commands.run('pkill cat')
}))

// What root inside can do to the daemon, the channel and the kernel. A sandbox that is lost is deleted all the same.
const attacks = [
  ['stops and kills its init', 'kill -STOP 1; kill -9 1; true', true],
  ['writes to the channel port', 'for p in /dev/vport*; do dd if=/dev/urandom of=$p bs=4k count=64; done 2>/dev/null; true', true],
  ['unbinds the channel device', 'for d in /sys/bus/virtio/drivers/virtio_console/virtio*; do echo ${d##*/} > /sys/bus/virtio/drivers/virtio_console/unbind; done', false],
  ['hogs the only CPU in real time', 'echo -1 > /proc/sys/kernel/sched_rt_runtime_us; chrt -f 99 sh -c "while :; do :; done" & sleep 5', undefined],
  ['freezes every file system', 'fsfreeze -f /', undefined],
  ['tears its cgroups down', 'for p in $(cat /sys/fs/cgroup/cgroup.procs); do kill -9 $p; done; rmdir /sys/fs/cgroup/*; true', undefined],
]
for (const [what, command, survives] of attacks) {
  test(`hostile root ${what}: ${survives ? 'nothing happens' : 'others do not notice, deleted in bounded time'}`, async () => {
    const sandbox = await Sandbox.create({ timeoutMs: 600_000 })
    await sandbox.commands.run(command, { user: 'root', timeoutMs: 15_000, requestTimeoutMs: 20_000 }).catch(() => {})
    assert.equal(await stdout(witness, 'echo served'), 'served\n')
    const answer = await stdout(sandbox, 'echo alive', { timeoutMs: 45_000, requestTimeoutMs: 45_000 }).catch((error) => error.message)
    console.log(`# afterwards: ${JSON.stringify(answer)}`)
    if (survives) assert.equal(answer, 'alive\n')
    if (survives === false) assert.notEqual(answer, 'alive\n')
    const begin = Date.now()
    assert.equal((await api('DELETE', `/sandboxes/${sandbox.sandboxId}`)).status, 204)
    console.log(`# deleted in ${Date.now() - begin} ms`)
    assert.equal(qemuOf(sandbox.sandboxId), undefined)
  })
}

test('a 200 MB upload streams through: it arrives whole and nobody stores it', () => inFresh(async (sandbox) => {
  const size = 200 * 1024 * 1024
  const before = residentMib()
  let peak = 0
  const watch = setInterval(() => { peak = Math.max(peak, residentMib()['space-control']) }, 100).unref()
  const boundary = 'space-fault'
  const headers = { ...(await dataPlaneHeaders(sandbox)), 'Content-Type': `multipart/form-data; boundary=${boundary}` }
  async function* body() {
    yield Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="big"\r\n\r\n`)
    for (let sent = 0; sent < size; sent += 1024 * 1024) yield Buffer.alloc(1024 * 1024, 120)
    yield Buffer.from(`\r\n--${boundary}--\r\n`)
  }
  const answer = await fetch(`${apiUrl}/files?path=/home/user/big&username=user`, { method: 'POST', headers, body: body(), duplex: 'half' })
  clearInterval(watch)
  assert.equal(answer.status, 200, await answer.text())
  assert.equal(await stdout(sandbox, 'stat -c %s /home/user/big'), `${size}\n`)
  console.log(`# space-control: ${before['space-control']} MiB before, at most ${peak} MiB during`)
  assert.ok(peak < before['space-control'] + 64, `space-control grew to ${peak} MiB`)
}))

test('floods of header fields are refused, and the connection ends', async () => {
  for (const head of [`X-A: ${'y'.repeat(1024)}\r\n`.repeat(1024), `X-Long: ${'y'.repeat(4 << 20)}\r\n`, 'A: b\r\n'.repeat(200_000)]) {
    const connection = rawConnection()
    connection.write(`GET /v2/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\n${head}\r\n`)
    const [response] = await connection.responses(1)
    if (response) assert.ok([400, 431].includes(response.status), `${response.status}`)
    await until(connection.closed, 'the connection ends')
  }
})

test('hundreds of connections that say nothing, or a byte at a time, block nobody', async () => {
  const before = residentMib()
  const idle = Array.from({ length: 400 }, () => rawConnection())
  idle.forEach((connection, i) => { if (i % 2) connection.write('POST /v2/sandboxes HTTP/1.1\r\nHost: 127') })
  const drip = setInterval(() => { for (const connection of idle) if (!connection.closed()) connection.write('x') }, 200).unref()
  for (let i = 0; i < 20; ++i) assert.equal((await api('GET', '/v2/sandboxes')).status, 200)
  assert.equal(await stdout(witness, 'echo served'), 'served\n')
  const during = residentMib()
  clearInterval(drip)
  for (const connection of idle) connection.end()
  assert.ok(during['space-control'] < before['space-control'] + 64, `space-control grew to ${during['space-control']} MiB`)
})

test('malformed JSON on every route that takes a body: 400 and a sentence, the connection goes on', async () => {
  const id = witness.sandboxId
  const routes = [['POST', '/v2/sandboxes'], ['POST', '/sandboxes'], ['POST', `/v2/sandboxes/${id}/connect`], ['POST', `/sandboxes/${id}/connect`],
    ['POST', `/sandboxes/${id}/timeout`], ['POST', '/v1/templates']]
  const bodies = ['{', '{"a":', '[', 'null', '7', '"x"', '{"timeout":1e999}', '{"timeout":{}}', '{"a":"\\ud800"}', '\xff\xfe', `{"a":${'['.repeat(100_000)}`]
  const connection = rawConnection()
  for (const [method, path] of routes)
    for (const body of bodies) {
      connection.write(rawRequest(method, path, { 'X-API-Key': process.env.E2B_API_KEY, 'Content-Type': 'application/json' }, body))
      const [response] = await connection.responses(1)
      assert.ok(response, `${method} ${path} ${body.slice(0, 20)}: the connection ended`)
      const error = JSON.parse(response.body)
      assert.deepEqual([response.status, error.code], [400, 400], `${method} ${path} ${body.slice(0, 20)}`)
      assert.ok(error.message.length > 10)
    }
  connection.end()
})
