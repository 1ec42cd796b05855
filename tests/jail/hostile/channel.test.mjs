// A guest whose process 1 is an attacker, on the private channel: what it says reaches the parsers of space-sandboxd
// and, inside tunnels, of space-control. They hold a bounded amount of it, the neighbour works, and the attacked session
// ends with a reason or the guest is said to be silent; after that it is attached anew and served like any other.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { after, before, test } from 'node:test'
import { api, apiUrl, dataPlaneHeaders, rawConnection, rawRequest, Sandbox, sleep, until } from '../../e2b/sdk.mjs'
import { daemon, qemuOf, quietTable, settled, space, state } from '../../system/machine.mjs'
import { memoryBounded, Neighbour } from './neighbour.mjs'

const boundMib = 48 // of each daemon; an attack sends up to 1.5 GB

let table, daemons, neighbour, hostile, headers
const daemonPids = () => ['space-noded', 'space-sandboxd', 'space-control'].map((name) => daemon(name)?.pid)
before(async () => {
  table = await quietTable()
  daemons = daemonPids()
  neighbour = new Neighbour(await Sandbox.create({ timeoutMs: 1_800_000 }))
  hostile = await Sandbox.create('hostile', { timeoutMs: 1_800_000 })
  headers = await dataPlaneHeaders(hostile)
})
after(async () => {
  await neighbour?.sandbox.kill()
  await settled(table)
})

const logSize = () => fs.statSync(`${state}/space.log`).size
const logSince = (at) => fs.readFileSync(`${state}/space.log`, 'utf8').slice(at).split('\n').filter((line) => line.includes(hostile.sandboxId)).map((line) => JSON.parse(line))
const ask = (path, limitMs) => fetch(apiUrl + path, { headers, signal: AbortSignal.timeout(limitMs) })
  .then(async (answer) => `${answer.status} ${(await answer.text()).slice(0, 60).trim()}`).catch((error) => error.name)
// What the hostile daemon said on its console about the attack, once it is over.
const report = (name) => space('logs', hostile.sandboxId).split('\n').filter((line) => line.includes(`hostile: ${name} sent`)).at(-1)?.split('hostile: ')[1]

// Told what it broke, the guest may hang up before the reason is logged: either ends the session.
const ends = (reason) => new RegExp(`${reason.source}|the peer closed the connection`)
const broke = ends(/the peer broke HTTP\/2/)
const silent = /the guest does not answer/
const attacks = {
  // [attack, what the node's log says of it; nothing: the session outlives it]
  'sync-mute': silent, 'sync-flood': /no SYNC message in \d+ bytes/, 'sync-replay': undefined, 'sync-reflect': /no SYNC message in \d+ bytes/,
  'sync-half': undefined, 'sync-slow': undefined, 'sync-break': broke,
  'h2-length': broke, 'h2-garbage': broke, 'h2-half-frame': undefined, 'h2-slow': undefined, 'h2-mute': silent,
  'h2-strangers': broke, 'h2-late-answers': undefined, 'h2-own-streams': broke, 'h2-push': broke, 'h2-rapid-reset': ends(/resets streams too often/),
  'h2-settings': ends(/Flooding was detected|too often/), 'h2-settings-unread': ends(/Flooding was detected|too often/),
  'h2-ping': ends(/Flooding was detected/), 'h2-ping-unread': ends(/Flooding was detected/), 'h2-priority': ends(/resets streams too often/),
  'h2-continuation': ends(/Too many CONTINUATION frames/), 'h2-continuation-empty': ends(/Too many CONTINUATION frames/), 'h2-hpack': ends(/header is too long/),
  'h2-window': ends(/FLOW_CONTROL_ERROR/), 'h2-window-flood': undefined, 'h2-data': undefined, 'h2-goaway': ends(/the peer ended the session/), 'h2-unknown': undefined,
  'call-mute': undefined, 'call-body': undefined, 'call-json': undefined, 'call-numbers': undefined,
  'http-head': undefined, 'http-continue': undefined, 'http-chunk': undefined,
}

for (const [name, told] of Object.entries(attacks)) {
  test(`channel attack ${name}: bounded memory, the neighbour works, served again afterwards`, async () => {
    const at = logSize()
    let answer
    await memoryBounded(name, boundMib, () => neighbour.during(name, async () => {
      answer = await ask(`/attack/${name}`, 4_000)
      // These ask the guest; whatever it says, the API answers within its own bounds.
      if (name.startsWith('call-'))
        await until(async () => {
          const stats = await api('GET', `/v1/sandboxes/${hostile.sandboxId}/stats`)
          answer = `${stats.status} ${(await stats.text()).slice(0, 200)}`
          assert.ok([200, 409, 502, 503, 504].includes(stats.status), answer)
          return report(name)
        }, 'it was asked', 40_000)
      await until(async () => (await ask('/hello', 5_000)) === '200 hello', 'it is served again', 90_000)
    }))
    await until(() => report(name), 'the attack has taken place', 10_000)
    const said = logSince(at).map((entry) => `${entry.event}: ${entry.error ?? entry.reason ?? ''}`)
    console.log(`# ${name}: client ${answer}; ${report(name)}; log (${said.length} lines) ${[...new Set(said)].slice(0, 4).join(' | ')}`)
    if (told) assert.ok(said.some((line) => told.test(line)), `${told} in ${said.join('\n')}`)
    assert.ok(said.length < 100, `the log grew by ${said.length} lines`)
    assert.deepEqual(daemonPids(), daemons, 'a daemon died')
  })
}

test('a forged second answer in a tunnel reaches no other request of the same connection', async () => {
  const connection = rawConnection()
  connection.write(rawRequest('GET', '/attack/http-twice', headers))
  const [first] = await connection.responses(1)
  assert.deepEqual([first?.status, first?.body], [200, 'forged']) // the attack takes place
  for (let i = 0; i < 5; ++i) {
    connection.write(rawRequest('GET', '/v2/sandboxes', { 'X-API-Key': process.env.E2B_API_KEY }))
    const [next] = await connection.responses(1)
    if (!next) break // the edge may well have closed it
    assert.ok(next.body.includes(neighbour.sandbox.sandboxId), `somebody else's answer: ${next.body.slice(0, 100)}`)
  }
  connection.end()
})

test('the hostile sandbox is deleted like any other, while it attacks', async () => {
  await until(async () => (await ask('/hello', 5_000)) === '200 hello', 'it is served again', 90_000)
  ask('/attack/h2-unknown', 2_000)
  await sleep(500)
  assert.equal((await api('DELETE', `/sandboxes/${hostile.sandboxId}`)).status, 204)
  assert.equal(qemuOf(hostile.sandboxId), undefined)
})

test('guests that attack before they ever answered: create fails, says why and leaves nothing', async () => {
  const before = await quietTable()
  await memoryBounded('boot', boundMib, () => neighbour.during('boot', () => Promise.all([
    ['boot-flood', /no SYNC message/], ['boot-version', /channel version 65535/], ['boot-mute', /in time/]].map(async ([name, why]) => {
    const answer = await api('POST', '/v2/sandboxes', { templateID: `hostile-${name}` })
    const { message } = await answer.json()
    console.log(`# ${name}: ${answer.status} ${message}`)
    assert.ok(answer.status >= 409, `${answer.status}`)
    assert.match(message, why)
  }))))
  await settled(before)
})
