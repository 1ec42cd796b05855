// The edge: every request on a connection is routed by itself.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { api, apiKey, apiUrl, dataPlaneHeaders, rawConnection, rawRequest, Sandbox } from './sdk.mjs'

let one, two
before(async () => {
  one = await Sandbox.create({ timeoutMs: 600_000 })
  two = await Sandbox.create({ timeoutMs: 600_000 })
  await one.files.write('/tmp/who', 'one')
  await two.files.write('/tmp/who', 'two')
})
after(async () => { await Promise.all([one?.kill(), two?.kill()]) })

test('one keep-alive connection alternates two sandboxes and the API, pipelined', async () => {
  const headersOne = await dataPlaneHeaders(one)
  const headersTwo = await dataPlaneHeaders(two)
  const connection = rawConnection()
  const rounds = 20
  let text = ''
  for (let i = 0; i < rounds; i += 1) {
    text += rawRequest('GET', '/files?path=/tmp/who', headersOne)
    text += rawRequest('GET', `/sandboxes/${one.sandboxId}`, { 'X-API-Key': apiKey })
    text += rawRequest('GET', '/files?path=/tmp/who', headersTwo)
    text += rawRequest('POST', '/files?path=/tmp/in&username=user', { ...(i % 2 ? headersOne : headersTwo), 'Content-Type': 'application/octet-stream' }, `round ${i}`)
  }
  connection.write(text)
  const answers = await connection.responses(rounds * 4)
  connection.end()
  assert.equal(answers.length, rounds * 4)
  answers.forEach((answer, i) => {
    assert.equal(answer.status, 200, answer.body)
    if (i % 4 === 0) assert.equal(answer.body, 'one')
    if (i % 4 === 1) assert.equal(JSON.parse(answer.body).sandboxID, one.sandboxId)
    if (i % 4 === 2) assert.equal(answer.body, 'two')
  })
  assert.equal(await one.files.read('/tmp/in'), 'round 19')
  assert.equal(await two.files.read('/tmp/in'), 'round 18')
})

test("one sandbox's token does not open another", async () => {
  const wrong = { ...(await dataPlaneHeaders(one)), 'E2b-Sandbox-Id': two.sandboxId }
  assert.equal((await fetch(`${apiUrl}/files?path=/tmp/who`, { headers: wrong })).status, 401)
  assert.equal((await fetch(`${apiUrl}/files?path=/tmp/who`, { headers: await dataPlaneHeaders(two) })).status, 200)
})

test('a closed port, an unknown and a killed sandbox answer 502 with the documented body', async () => {
  const headers = await dataPlaneHeaders(one, 8099)
  const closed = await fetch(`${apiUrl}/`, { headers })
  assert.equal(closed.status, 502)
  assert.deepEqual(await closed.json(), { sandboxId: one.sandboxId, message: 'The sandbox is running but port is not open', port: 8099, code: 502 })
  const unknown = 'i' + 'y'.repeat(19)
  const gone = await fetch(`${apiUrl}/health`, { headers: { ...headers, 'E2b-Sandbox-Id': unknown, 'E2b-Sandbox-Port': '49983' } })
  assert.equal(gone.status, 502)
  assert.deepEqual(await gone.json(), { sandboxId: unknown, message: 'The sandbox was not found', code: 502 })
})

test('a server in the guest is reached, on loopback only too', async () => {
  await one.commands.run('cd /tmp && python3 -m http.server 8100 --bind 127.0.0.1 >/dev/null 2>&1', { background: true, timeoutMs: 0 })
  const headers = await dataPlaneHeaders(one, 8100)
  let answer
  for (let i = 0; i < 100; i += 1) {
    answer = await fetch(`${apiUrl}/who`, { headers })
    if (answer.status === 200) break
  }
  assert.equal(await answer.text(), 'one')
})

test("the daemon's internal routes are closed from outside", async () => {
  const headers = await dataPlaneHeaders(one)
  for (const path of ['/init', '/freeze', '/unfreeze', '/fsfreeze', '/fsthaw', '/upgrade', '/collapse'])
    assert.equal((await fetch(apiUrl + path, { method: 'POST', headers, body: '{}' })).status, 404, path)
  assert.equal((await fetch(`${apiUrl}/health`, { headers })).status, 204)
})

test('requests that could be read in two ways are refused', async () => {
  for (const request of [
    `POST /v2/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: ${apiKey}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `POST /v2/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: ${apiKey}\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello`,
    'NONSENSE\r\n\r\n',
  ]) {
    const connection = rawConnection()
    connection.write(request)
    const [answer] = await connection.responses(1)
    assert.equal(answer?.status, 400, request)
    connection.end()
  }
  assert.equal((await api('GET', '/v2/sandboxes')).status, 200)
})
