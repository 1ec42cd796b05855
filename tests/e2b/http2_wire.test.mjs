// HTTP/2 with prior knowledge, by hand: one connection for the API and every sandbox, as clients that pool connections use
// it. Requests are those of the Python SDK: v1 routes, Connect with JSON.
import assert from 'node:assert/strict'
import crypto from 'node:crypto'
import http2 from 'node:http2'
import { after, before, test } from 'node:test'
import { apiKey, apiUrl, sleep, until } from './sdk.mjs'

const pythonFields = { 'user-agent': 'e2b-python-sdk/2.45.1', lang: 'python', publisher: 'e2b', accept: '*/*', 'accept-encoding': 'gzip, deflate' }

// A stream that broke off has `broken`, with the code of its reset; its `status` and what came of its body stay.
function ask(connection, fields, body, onPart = () => {}) {
  return new Promise((resolve) => {
    const stream = connection.request(fields, { endStream: body === undefined })
    const answer = { stream, status: undefined, fields: {}, parts: [], ended: false }
    stream.on('response', (head) => { answer.status = head[':status']; answer.fields = head; onPart(answer) })
    stream.on('data', (part) => { answer.parts.push(part); onPart(answer) })
    stream.on('end', () => { answer.ended = true })
    stream.on('error', (error) => { answer.error = error })
    stream.on('close', () => {
      answer.body = Buffer.concat(answer.parts)
      answer.code = stream.rstCode
      answer.broken = stream.rstCode !== http2.constants.NGHTTP2_NO_ERROR || !answer.ended
      resolve(answer)
    })
    if (body !== undefined) stream.end(body)
  })
}

const open = async () => {
  // Node refuses new streams of its own while more than this many MB wait to be sent.
  const connection = http2.connect(apiUrl, { maxSessionMemory: 200, maxSendHeaderBlockLength: 10 * 1024 * 1024 })
  connection.on('error', () => {})
  await new Promise((resolve, reject) => connection.once('connect', resolve).once('error', reject))
  return connection
}
const apiFields = (method, path, key = apiKey) =>
  ({ ':method': method, ':path': path, 'x-api-key': key, 'content-type': 'application/json', ...pythonFields })
const sandboxFields = (sandbox, method, path, more = {}) =>
  ({ ':method': method, ':path': path, 'e2b-sandbox-id': sandbox.id, 'e2b-sandbox-port': '49983', 'x-access-token': sandbox.token, ...pythonFields, ...more })
const api = async (connection, method, path, body) => {
  const answer = await ask(connection, apiFields(method, path), body === undefined ? undefined : JSON.stringify(body))
  return { status: answer.status, body: answer.body.length ? JSON.parse(answer.body) : undefined }
}

function envelope(message) {
  const payload = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(payload.length, 1)
  return Buffer.concat([head, payload])
}
function messages(bytes) {
  const all = []
  for (let at = 0; at < bytes.length; at += 5 + bytes.readUInt32BE(at + 1))
    all.push({ flags: bytes[at], ...JSON.parse(bytes.subarray(at + 5, at + 5 + bytes.readUInt32BE(at + 1))) })
  return all
}
const connectFields = { 'content-type': 'application/connect+json', 'connect-protocol-version': '1', 'connect-timeout-ms': '60000', 'keepalive-ping-interval': '50', authorization: `Basic ${Buffer.from('user:').toString('base64')}` }
const start = (connection, sandbox, command, onPart) =>
  ask(connection, sandboxFields(sandbox, 'POST', '/process.Process/Start', connectFields),
    envelope({ process: { cmd: '/bin/sh', args: ['-c', command] }, stdin: false }), onPart)
const unary = async (connection, sandbox, method, message) => {
  const answer = await ask(connection, sandboxFields(sandbox, 'POST', `/process.Process/${method}`, { 'content-type': 'application/json', 'connect-protocol-version': '1' }), JSON.stringify(message))
  return { status: answer.status, body: JSON.parse(answer.body) }
}
function output(answer) {
  const events = messages(answer.body)
  const stdout = events.map((each) => each.event?.data?.stdout).filter(Boolean).map((text) => Buffer.from(text, 'base64').toString()).join('')
  return { stdout, end: events.find((each) => each.event?.end)?.event.end, last: events.at(-1) }
}

const create = async (connection) => {
  const { status, body } = await api(connection, 'POST', '/sandboxes', { templateID: 'base', timeout: 600, secure: true, metadata: {}, envVars: {}, autoPause: false, allow_internet_access: true })
  assert.equal(status, 201, JSON.stringify(body))
  return { id: body.sandboxID, token: body.envdAccessToken }
}

let shared, one, two
before(async () => {
  shared = await open()
  one = await create(shared)
  two = await create(shared)
})
after(async () => {
  for (const sandbox of [one, two]) if (sandbox) await api(shared, 'DELETE', `/sandboxes/${sandbox.id}`)
  shared?.close()
})

test('the life of a sandbox over v1 routes, all on one connection', async () => {
  const connected = await api(shared, 'POST', `/sandboxes/${one.id}/connect`, { timeout: 600 })
  assert.equal(connected.status, 200)
  assert.equal(connected.body.envdAccessToken, one.token)
  assert.equal((await api(shared, 'POST', `/sandboxes/${one.id}/timeout`, { timeout: 700 })).status, 204)
  assert.equal((await api(shared, 'GET', `/sandboxes/${one.id}`)).body.state, 'running')
  const listed = await api(shared, 'GET', '/v2/sandboxes?state=running&limit=100')
  assert.ok(listed.body.some((each) => each.sandboxID === two.id))
  const unknown = await api(shared, 'GET', `/sandboxes/i${'z'.repeat(19)}`)
  assert.deepEqual([unknown.status, unknown.body.code], [404, 404])
})

test('streams of two sandboxes and the API interleave on one connection', async () => {
  const put = (sandbox, text) => ask(shared, sandboxFields(sandbox, 'POST', '/files?path=/tmp/who&username=user', { 'content-type': 'application/octet-stream' }), text)
  await Promise.all([put(one, 'one'), put(two, 'two')])
  await Promise.all(Array.from({ length: 20 }, async (_, i) => {
    const [a, b, c] = await Promise.all([
      ask(shared, sandboxFields(one, 'GET', '/files?path=/tmp/who')),
      api(shared, 'GET', `/sandboxes/${i % 2 ? one.id : two.id}`),
      ask(shared, sandboxFields(two, 'GET', '/files?path=/tmp/who')),
    ])
    assert.equal(a.body.toString(), 'one')
    assert.equal(b.body.sandboxID, i % 2 ? one.id : two.id)
    assert.equal(c.body.toString(), 'two')
  }))
})

test('a stream of events and unary calls', async () => {
  const answer = output(await start(shared, one, 'echo out; exit 3'))
  assert.equal(answer.stdout, 'out\n')
  assert.equal(answer.end.exitCode, 3)
  assert.deepEqual(answer.last, { flags: 2 })
  assert.deepEqual(await unary(shared, one, 'List', {}), { status: 200, body: { processes: [] } })
  const missing = await unary(shared, one, 'SendSignal', { process: { pid: 999999 }, signal: 'SIGNAL_SIGKILL' })
  assert.deepEqual([missing.status, missing.body.code], [404, 'not_found'])
})

test('a hundred commands side by side on one connection', async () => {
  const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => start(shared, i % 2 ? one : two, `echo ${i}`)))
  answers.forEach((answer, i) => assert.deepEqual([output(answer).stdout, output(answer).last], [`${i}\n`, { flags: 2 }]))
})

test('tens of megabytes up and down, with small requests between', async () => {
  const bytes = crypto.randomBytes(32 * 1024 * 1024)
  const path = '/files?path=/tmp/blob&username=user'
  let uploaded = false
  const upload = ask(shared, sandboxFields(one, 'POST', path, { 'content-type': 'application/octet-stream' }), bytes).finally(() => { uploaded = true })
  let between = 0
  while (!uploaded) {
    assert.equal((await ask(shared, sandboxFields(two, 'GET', '/health'))).status, 204)
    between += 1
  }
  assert.equal((await upload).status, 200)
  assert.ok(between > 0)
  const download = await ask(shared, sandboxFields(one, 'GET', path))
  assert.equal(download.fields['content-length'], String(bytes.length))
  assert.ok(download.body.equals(bytes))
})

test('a client that cancels its stream ends the stream, not the program', async () => {
  const cancelled = await start(shared, one, 'echo begin; sleep 600', (answer) => {
    if (answer.parts.length) answer.stream.close(http2.constants.NGHTTP2_CANCEL)
  })
  assert.ok(cancelled.broken)
  const { body } = await unary(shared, one, 'List', {})
  const left = body.processes.filter((each) => each.config.args?.at(-1) === 'echo begin; sleep 600')
  assert.equal(left.length, 1)
  assert.equal((await unary(shared, one, 'SendSignal', { process: { pid: left[0].pid }, signal: 'SIGNAL_SIGKILL' })).status, 200)
})

test('a cancelled upload and a cancelled endless download leave the connection usable', async () => {
  const upload = shared.request(sandboxFields(one, 'POST', '/files?path=/tmp/part&username=user', { 'content-type': 'application/octet-stream' }))
  upload.on('error', () => {})
  upload.write(Buffer.alloc(300_000))
  await sleep(50)
  upload.close(http2.constants.NGHTTP2_CANCEL)
  const download = await start(shared, one, 'yes', (answer) => {
    if (answer.parts.length === 5) answer.stream.close(http2.constants.NGHTTP2_CANCEL)
  })
  assert.ok(download.broken)
  const { body } = await unary(shared, one, 'List', {})
  for (const each of body.processes) await unary(shared, one, 'SendSignal', { process: { pid: each.pid }, signal: 'SIGNAL_SIGKILL' })
  assert.equal((await ask(shared, sandboxFields(one, 'GET', '/health'))).status, 204)
})

test('every stream needs its own token and key', async () => {
  const list = (fields) => ask(shared, { ...sandboxFields(one, 'POST', '/process.Process/List', { 'content-type': 'application/json' }), ...fields }, '{}')
  assert.equal((await list({})).status, 200)
  assert.equal((await list({ 'x-access-token': 'wrong' })).status, 401)
  assert.equal((await list({ 'x-access-token': two.token })).status, 401)
  assert.equal((await ask(shared, apiFields('GET', '/v2/sandboxes', 'e2b_' + '0'.repeat(40)))).status, 401)
  assert.equal((await ask(shared, sandboxFields(one, 'POST', '/init'), '{}')).status, 404)
  assert.equal((await api(shared, 'GET', '/v2/sandboxes')).status, 200)
})

test('a guest server behind a port; a closed port says so', async () => {
  const server = start(shared, one, 'cd /tmp && exec python3 -m http.server 8200 --bind 127.0.0.1', () => {})
  const fields = sandboxFields(one, 'GET', '/who', { 'e2b-sandbox-port': '8200' })
  let answer
  await until(async () => (answer = await ask(shared, fields)).status === 200, 'the server of the guest')
  assert.equal(answer.body.toString(), 'one')
  assert.equal(answer.fields.connection, undefined)
  const closed = await ask(shared, sandboxFields(one, 'GET', '/', { 'e2b-sandbox-port': '8201' }))
  assert.equal(closed.status, 502)
  assert.equal(JSON.parse(closed.body).port, 8201)
  for (const each of (await unary(shared, one, 'List', {})).body.processes)
    await unary(shared, one, 'SendSignal', { process: { pid: each.pid }, signal: 'SIGNAL_SIGKILL' })
  assert.equal(output(await server).end.exitCode, -1)
})

test('a killed sandbox resets its streams and no others', async () => {
  const victim = await create(shared)
  let begun = 0
  const onPart = (answer) => { if (answer.parts.length === 1) begun += 1 }
  const broken = start(shared, victim, 'sleep 600', onPart)
  const other = start(shared, two, 'sleep 600', onPart)
  await until(() => begun === 2, 'two streams')
  assert.equal((await api(shared, 'DELETE', `/sandboxes/${victim.id}`)).status, 204)
  const answer = await broken
  assert.equal(answer.status, 200)
  assert.equal(answer.code, http2.constants.NGHTTP2_INTERNAL_ERROR)
  assert.equal(answer.ended, false)
  assert.equal((await ask(shared, sandboxFields(victim, 'GET', '/health'))).status, 502)
  const { body } = await unary(shared, two, 'List', {})
  for (const each of body.processes) await unary(shared, two, 'SendSignal', { process: { pid: each.pid }, signal: 'SIGNAL_SIGKILL' })
  assert.deepEqual(output(await other).last, { flags: 2 })
})

test('malformed requests are refused one by one', async () => {
  for (const fields of [
    { ...sandboxFields(one, 'POST', '/files?path=/tmp/x'), host: 'other.test' },
    { ...sandboxFields(one, 'GET', '/health'), ':authority': 'user@127.0.0.1' },
    { ':method': 'CONNECT', ':authority': '127.0.0.1:22' },
  ]) {
    const answer = await ask(shared, fields)
    assert.ok(answer.status === 400 || answer.broken, JSON.stringify(fields))
  }
  const short = await ask(shared, sandboxFields(one, 'POST', '/files?path=/tmp/short&username=user', { 'content-type': 'application/octet-stream', 'content-length': '10' }), 'short')
  assert.ok(short.broken)
  assert.equal((await ask(shared, sandboxFields(one, 'GET', '/health'))).status, 204)
})

test('a flood of header bytes ends its connection alone', async () => {
  const large = (count) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`x-large-${i}`, 'y'.repeat(1000)]))
  const flooder = await open()
  assert.equal((await ask(flooder, { ...apiFields('GET', '/v2/sandboxes'), ...large(30) })).status, 200)
  assert.equal((await ask(flooder, { ...apiFields('GET', '/v2/sandboxes'), ...large(80) })).status, 431)
  assert.ok((await ask(flooder, { ...apiFields('GET', '/v2/sandboxes'), ...large(500) })).broken)
  await until(() => flooder.destroyed, 'the end of the connection')
  assert.equal((await api(shared, 'GET', '/v2/sandboxes')).status, 200)
})

test('rapid resets end their connection alone', async () => {
  const flooder = await open()
  for (let i = 0; i < 20_000 && !flooder.destroyed && !flooder.closed; i += 1) {
    const stream = flooder.request(sandboxFields(one, 'GET', '/health'))
    stream.on('error', () => {})
    stream.close(http2.constants.NGHTTP2_CANCEL)
    if (i % 100 === 0) await new Promise(setImmediate)
  }
  await until(() => flooder.destroyed, 'the end of the connection')
  assert.equal((await ask(shared, sandboxFields(one, 'GET', '/health'))).status, 204)
})

test('HTTP/1.1 on the same port, as ever', async () => {
  assert.equal((await fetch(`${apiUrl}/v2/sandboxes`, { headers: { 'X-API-Key': apiKey } })).status, 200)
})
