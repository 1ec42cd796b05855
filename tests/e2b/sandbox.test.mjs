// Create, look up, list, time out, kill: the life of a sandbox as the SDK sees it.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { api, apiUrl, failure, newest, sdk, Sandbox, sleep, until } from './sdk.mjs'

let shared
before(async () => { shared = await Sandbox.create({ metadata: { suite: 'sandbox', odd: 'a b&c=%d' }, envs: { FROM_CREATE: 'yes' } }) })
after(async () => { await shared?.kill() })

test('create answers an id of the documented shape and the sandbox runs', async () => {
  assert.match(shared.sandboxId, /^i[a-z0-9]{19}$/)
  assert.equal(await shared.isRunning(), true)
})

test('info names template, state, shape, times and metadata', async () => {
  const info = await shared.getInfo()
  assert.equal(info.sandboxId, shared.sandboxId)
  assert.equal(info.state, 'running')
  assert.equal(info.cpuCount, 1)
  assert.equal(info.memoryMB, 512)
  assert.deepEqual(info.metadata, { suite: 'sandbox', odd: 'a b&c=%d' })
  assert.ok(info.startedAt instanceof Date && info.endAt > info.startedAt)
})

test('list finds it by metadata and by state and not by other metadata', async () => {
  const find = async (query) => (await Sandbox.list({ query }).nextItems()).map((s) => s.sandboxId)
  assert.deepEqual(await find({ metadata: { odd: 'a b&c=%d' } }), [shared.sandboxId])
  assert.ok((await find({ state: ['running'] })).includes(shared.sandboxId))
  assert.deepEqual(await find({ metadata: { odd: 'other' } }), [])
  assert.ok(!(await find({ state: ['paused'] })).includes(shared.sandboxId))
})

test('list pages with a limit and a token', async () => {
  const second = await Sandbox.create({ metadata: { suite: 'sandbox' } })
  try {
    const seen = []
    const pages = Sandbox.list({ limit: 1, query: { metadata: { suite: 'sandbox' } } })
    while (pages.hasNext) seen.push(...(await pages.nextItems()).map((s) => s.sandboxId))
    assert.deepEqual(new Set(seen), new Set([shared.sandboxId, second.sandboxId]))
    assert.equal(seen.length, 2)
  } finally {
    await second.kill()
  }
})

test('connect from another client reaches the same machine and never shortens its life', async () => {
  await shared.files.write('/tmp/marker', 'here')
  const before = (await shared.getInfo()).endAt
  const other = await Sandbox.connect(shared.sandboxId, { timeoutMs: 5_000 })
  assert.equal(await other.files.read('/tmp/marker'), 'here')
  assert.ok((await shared.getInfo()).endAt >= before)
})

test('setTimeout moves the end both ways', async () => {
  await shared.setTimeout(600_000)
  const long = (await shared.getInfo()).endAt
  await shared.setTimeout(120_000)
  const short = (await shared.getInfo()).endAt
  assert.ok(short < long)
  await shared.setTimeout(300_000)
})

test('a timeout kills: the sandbox is gone for every call', async () => {
  const brief = await Sandbox.create({ timeoutMs: 2_000 })
  assert.equal(await brief.isRunning(), true)
  await until(async () => !(await brief.isRunning()), 'the sandbox ends at its timeout')
  const error = await failure(Sandbox.getInfo(brief.sandboxId))
  assert.match(error.message, /not found/)
})

test('kill answers true once and false ever after', async () => {
  const doomed = await Sandbox.create()
  assert.equal(await Sandbox.kill(doomed.sandboxId), true)   // the instance's own kill() answers nothing in old SDKs
  assert.equal(await Sandbox.kill(doomed.sandboxId), false)
  assert.equal(await doomed.isRunning(), false)
})

test('a stream under way ends with an error when its sandbox is killed', async () => {
  const doomed = await Sandbox.create()
  const handle = await doomed.commands.run('echo up; sleep 600', { background: true, timeoutMs: 0 })
  const outcome = failure(handle.wait())
  await until(() => handle.stdout.includes('up'), 'the command started')
  await doomed.kill()
  const error = await outcome
  assert.ok(!(error instanceof sdk.CommandExitError), `an exit code was invented: ${error}`)
})

test('unknown sandbox, unknown template, wrong key: the documented errors', async () => {
  const unknown = 'i' + 'x'.repeat(19)
  assert.equal(await Sandbox.kill(unknown), false)
  assert.equal((await failure(Sandbox.connect(unknown))).constructor.name, newest ? 'SandboxNotFoundError' : (await failure(Sandbox.connect(unknown))).constructor.name)
  assert.match((await failure(Sandbox.create('no-such-template'))).message, /404|not found/)
  assert.equal((await failure(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }))).constructor.name, 'AuthenticationError')
})

test('malformed requests get 400 and a sentence, never a hang', async () => {
  for (const [body, word] of [['{', 'JSON'], ['[]', 'object'], ['{"templateID":5}', 'templateID'], ['{}', 'templateID'],
    ['{"templateID":"base","timeout":"long"}', 'timeout'], ['{"templateID":"base","timeout":-1}', 'Timeout'],
    ['{"templateID":"base","metadata":{"a":1}}', 'metadata'], ['{"templateID":"base","envVars":[]}', 'envVars'], ['[' .repeat(5000), 'JSON']]) {
    const answer = await api('POST', '/v2/sandboxes', body)
    const error = await answer.json()
    assert.equal(answer.status, 400, body.slice(0, 60))
    assert.equal(error.code, 400)
    assert.match(error.message, new RegExp(word), body.slice(0, 60))
  }
  assert.equal((await api('POST', `/sandboxes/${shared.sandboxId}/timeout`, { timeout: 0 })).status, 400)
  assert.equal((await api('GET', '/sandboxes/..%2f..%2fetc')).status, 404)
  assert.equal((await api('GET', '/no/such/route')).status, 404)
  assert.equal((await api('POST', '/v2/sandboxes', 'x'.repeat(8 * 1024 * 1024)).catch(() => ({ status: 413 }))).status, 413)
  assert.equal(await shared.isRunning(), true)
})

test('every error body has code and message, also without a key', async () => {
  const answer = await fetch(`${apiUrl}/sandboxes/${shared.sandboxId}`)
  assert.equal(answer.status, 401)
  const body = await answer.json()
  assert.equal(body.code, 401)
  assert.ok(body.message.length > 10)
})

test('the dead are remembered: a tombstone says why', async () => {
  const doomed = await Sandbox.create()
  await doomed.kill()
  const answer = await api('GET', `/sandboxes/${doomed.sandboxId}`)
  assert.equal(answer.status, 404)
  assert.match((await answer.json()).message, new RegExp(doomed.sandboxId))
  await sleep(0)
})
