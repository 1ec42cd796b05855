// Pause, connect and timeouts as the SDKs use them. T numbers: what users reported of such platforms.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { api, dataPlaneHeaders, apiUrl, failure, newest, sdk, Sandbox, sleep, until } from './sdk.mjs'

const made = []
const create = async (options = {}) => { made.push(await Sandbox.create({ timeoutMs: 600_000, ...options })); return made.at(-1) }
after(() => Promise.all(made.map((sandbox) => sandbox.kill().catch(() => {}))))

let shared
before(async () => { shared = await create({ metadata: { suite: 'pause' } }) })
const output = async (sandbox, command) => (await sandbox.commands.run(command)).stdout.trim()
const states = async (state) => (await Sandbox.list({ query: { metadata: { suite: 'pause' }, state: [state] } }).nextItems()).map((s) => s.sandboxId)

test('pause and connect: programs, files, id and token are what they were', async () => {
  const counter = await shared.commands.run('i=0; while :; do i=$((i+1)); echo $i > /tmp/count; sleep 0.05; done', { background: true, timeoutMs: 0 })
  counter.wait().catch(() => {})
  await shared.files.write('/home/user/kept', 'kept')
  const before = await dataPlaneHeaders(shared)
  const boot = await output(shared, 'cat /proc/sys/kernel/random/boot_id')
  assert.equal(await shared.pause(), true)
  assert.equal(await shared.isRunning(), false)
  const info = await shared.getInfo()
  assert.equal(info.state, 'paused')
  assert.deepEqual(await states('paused'), [shared.sandboxId])
  assert.deepEqual(await states('running'), [])
  const connected = await Sandbox.connect(shared.sandboxId, { timeoutMs: 600_000 })
  assert.equal(connected.sandboxId, shared.sandboxId)
  assert.equal(await connected.isRunning(), true)
  assert.equal(await connected.files.read('/home/user/kept'), 'kept')
  assert.equal(await output(connected, 'cat /proc/sys/kernel/random/boot_id'), boot)
  assert.ok((await connected.commands.list()).some((one) => one.pid === counter.pid))
  const first = Number(await connected.files.read('/tmp/count'))
  await until(async () => Number(await connected.files.read('/tmp/count')) > first, 'the program goes on')
  // The old object knows nothing of the pause and goes on working: its token is still good.
  assert.equal(await shared.files.read('/home/user/kept'), 'kept')
  assert.deepEqual(await dataPlaneHeaders(shared), before)
  await connected.commands.kill(counter.pid)
})

test('pausing what rests answers false, of what is unknown an error', async () => {
  assert.equal(await Sandbox.pause(shared.sandboxId), true)
  assert.equal(await Sandbox.pause(shared.sandboxId), false)
  assert.equal((await api('POST', `/sandboxes/${shared.sandboxId}/resume`, { timeout: 600 })).status, 201)
  assert.equal((await api('POST', `/sandboxes/${shared.sandboxId}/resume`)).status, 409)
  assert.match((await failure(Sandbox.pause('i' + 'x'.repeat(19)))).message, /not found/)
})

test('connect of either form: 200 when it runs, 201 when it rested, and never a shorter life', async () => {
  for (const path of ['/v2/sandboxes', '/sandboxes']) {
    const connect = (timeout) => api('POST', `${path}/${shared.sandboxId}/connect`, { timeout })
    const end = async () => Date.parse((await (await api('GET', `/sandboxes/${shared.sandboxId}`)).json()).endAt)
    assert.equal((await connect(900)).status, 200)
    const long = await end()
    assert.equal((await connect(10)).status, 200)
    assert.equal(await end(), long)
    assert.equal((await api('POST', `/sandboxes/${shared.sandboxId}/pause`)).status, 204)   // as the oldest SDK: no body
    assert.equal((await connect(300)).status, 201)
    assert.ok(await end() < long)
  }
})

test('T08 T09: from another client at once, fifty times; the last write is there', async () => {
  for (let i = 0; i < 50; i++) {
    await shared.files.write('/tmp/round', String(i))
    assert.equal(await Sandbox.pause(shared.sandboxId), true)
    const other = await Sandbox.connect(shared.sandboxId, { timeoutMs: 600_000 })
    assert.equal(other.sandboxId, shared.sandboxId)
    assert.equal(await other.files.read('/tmp/round'), String(i))
  }
})

test('T06: a hundred connects at once are one resume', async () => {
  await Sandbox.pause(shared.sandboxId)
  const answers = await Promise.all(Array.from({ length: 100 }, () => api('POST', `/v2/sandboxes/${shared.sandboxId}/connect`, { timeout: 600 })))
  const codes = answers.map((answer) => answer.status)
  assert.equal(codes.filter((code) => code === 201).length, 1, codes.join(' '))
  assert.equal(codes.filter((code) => code === 200).length, 99, codes.join(' '))
  assert.equal(await output(shared, 'echo here'), 'here')
})

test('a stream under way ends with an error when its sandbox is paused; the program goes on', async () => {
  const handle = await shared.commands.run('echo up; while [ ! -e /tmp/stop ]; do sleep 0.1; done; echo done > /tmp/stopped', { background: true, timeoutMs: 0 })
  const outcome = failure(handle.wait())
  await until(() => handle.stdout.includes('up'), 'the command started')
  await shared.pause()
  const error = await outcome
  assert.ok(!(error instanceof sdk.CommandExitError), `an exit code was invented: ${error}`)
  const back = await Sandbox.connect(shared.sandboxId, { timeoutMs: 600_000 })
  await back.files.write('/tmp/stop', '')
  await until(() => back.files.exists('/tmp/stopped'), 'the program goes on')
})

test('T17: a timeout that pauses loses no write, and it stays one after the sandbox came back', async () => {
  const sandbox = await create({ lifecycle: { onTimeout: 'pause' }, metadata: { suite: 'timeout', who: 'ana' } })
  const info = await sandbox.getInfo()
  for (let round = 0; round < 2; round++) {
    await sandbox.commands.run(`head -c 3000000 /dev/urandom > /home/user/late${round}; sha256sum /home/user/late${round} > /home/user/sum${round}`)
    await sandbox.setTimeout(1_000)
    await until(async () => (await sandbox.getInfo()).state === 'paused', 'the timeout pauses it')
    assert.equal(await sandbox.isRunning(), false)
    await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 600_000 })
    assert.match(await output(sandbox, `sha256sum -c /home/user/sum${round}`), /OK/)
  }
  const again = await sandbox.getInfo()
  assert.deepEqual(again.metadata, info.metadata)   // T12
  assert.deepEqual(again.lifecycle, info.lifecycle)
  assert.equal(again.templateId, info.templateId)
})

test('a request wakes what may be woken, and gives it a life', async () => {
  const sandbox = await create({ lifecycle: { onTimeout: 'pause', autoResume: true } })
  await sandbox.files.write('/tmp/kept', 'kept')
  for (const wakes of [() => sandbox.files.read('/tmp/kept'), async () => (await sandbox.isRunning()) && 'kept', () => output(sandbox, 'cat /tmp/kept')]) {
    await sandbox.pause()
    assert.equal(await wakes(), 'kept')
    const info = await sandbox.getInfo()
    assert.equal(info.state, 'running')
    assert.ok(info.endAt > new Date())
  }
  await sandbox.pause()
  const reads = await Promise.all(Array.from({ length: 30 }, () => sandbox.files.read('/tmp/kept')))
  assert.ok(reads.every((text) => text === 'kept'))
})

test('T06: requests in the middle of a pause are served', async () => {
  const sandbox = await create({ lifecycle: { onTimeout: 'pause', autoResume: true } })
  await sandbox.files.write('/tmp/kept', 'kept')
  for (let round = 0; round < 5; round++) {
    const pausing = Sandbox.pause(sandbox.sandboxId)
    const reads = Array.from({ length: 10 }, async (_, i) => { await sleep(i * 10); return sandbox.files.read('/tmp/kept').catch((error) => error) })
    const seen = await Promise.all(reads)
    await pausing
    // One whose answer had begun is reset by the pause; all others wait for it.
    assert.ok(seen.every((text) => text === 'kept' || /reset|terminated|fetch failed|aborted|closed|timeout/i.test(text.message)), seen.join('\n'))
    assert.ok(seen.includes('kept'))
    assert.equal(await sandbox.files.read('/tmp/kept'), 'kept')
  }
})

// The older SDK knows no such option.
if (newest) test('without memory it boots from its disk: files are there, programs are not', async () => {
  const sandbox = await create()
  await sandbox.files.write('/home/user/kept', 'kept')
  const boot = await output(sandbox, 'cat /proc/sys/kernel/random/boot_id')
  assert.equal(await sandbox.pause({ keepMemory: false }), true)
  const stopped = await (await api('GET', `/sandboxes/${sandbox.sandboxId}`)).json()
  assert.deepEqual([stopped.state, stopped.stateDetail], ['paused', 'stopped'])
  await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 600_000 })
  assert.equal(await sandbox.files.read('/home/user/kept'), 'kept')
  const second = await output(sandbox, 'cat /proc/sys/kernel/random/boot_id')
  assert.notEqual(second, boot)
  // The same of one that kept its memory.
  await sandbox.pause()
  assert.equal((await api('POST', `/v2/sandboxes/${sandbox.sandboxId}/connect`, { timeout: 600, memory: false })).status, 201)
  assert.notEqual(await output(sandbox, 'cat /proc/sys/kernel/random/boot_id'), second)
  assert.equal(await sandbox.files.read('/home/user/kept'), 'kept')
})

test('stop and start', async () => {
  const sandbox = await create()
  await sandbox.files.write('/home/user/kept', 'kept')
  const post = async (verb, body) => (await api('POST', `/v1/sandboxes/${sandbox.sandboxId}/${verb}`, body)).status
  assert.equal(await post('stop'), 204)
  assert.equal(await post('stop'), 204)
  assert.equal(await sandbox.isRunning(), false)
  assert.equal(await post('start', { timeout: 600 }), 201)
  assert.equal(await post('start'), 200)
  assert.equal(await sandbox.files.read('/home/user/kept'), 'kept')
})

test('a checkpoint leaves the sandbox running and is listed', async () => {
  const path = `/v1/sandboxes/${shared.sandboxId}/snapshots`
  const numbers = async () => (await (await api('GET', path)).json()).snapshots.map((one) => one.number)
  const before = await numbers()
  const made = await api('POST', path)
  assert.equal(made.status, 201, await made.clone().text())
  const { number, quiesced } = await made.json()
  assert.equal(quiesced, true)
  assert.ok((await numbers()).includes(number) && !before.includes(number))
  assert.equal(await output(shared, 'echo on'), 'on')
})

test('T03 T04: kill of a paused sandbox is the end of it, and so is one in the middle of a pause or a connect', async () => {
  const kill = async (sandbox) => assert.equal(await Sandbox.kill(sandbox.sandboxId), true)
  const resting = await create()
  await resting.pause()
  await kill(resting)
  const pausing = await create()
  const pause = Sandbox.pause(pausing.sandboxId).catch((error) => error)
  await kill(pausing)
  await pause
  const resuming = await create()
  await resuming.pause()
  const connect = Sandbox.connect(resuming.sandboxId).catch((error) => error)
  await kill(resuming)
  await connect
  for (const one of [resting, pausing, resuming]) {
    assert.equal(await Sandbox.kill(one.sandboxId), false)
    assert.equal(await one.isRunning(), false)
    assert.equal((await api('GET', `/sandboxes/${one.sandboxId}`)).status, 404)
  }
})

test('T60: a life may have no end', async () => {
  const answer = await api('POST', '/v2/sandboxes', { templateID: 'base', timeout: 'never' })
  assert.equal(answer.status, 201)
  const { sandboxID } = await answer.json()
  const end = async () => (await (await api('GET', `/sandboxes/${sandboxID}`)).json()).endAt
  assert.equal(await end(), '9999-12-31T23:59:59Z')
  await Sandbox.connect(sandboxID, { timeoutMs: 1_000 })
  assert.equal(await end(), '9999-12-31T23:59:59Z')
  assert.equal(await Sandbox.kill(sandboxID), true)
})

test('T08: the same from a checkpoint, once its memory was given back', async () => {
  const answer = await api('POST', '/v2/sandboxes', { templateID: 'base', timeout: 600, pausePolicy: { hotKeepSeconds: 0 } })
  const sandbox = await Sandbox.connect((await answer.json()).sandboxID, { timeoutMs: 600_000 })
  made.push(sandbox)
  await sandbox.files.write('/dev/shm/word', 'kept')
  const boot = await output(sandbox, 'cat /proc/sys/kernel/random/boot_id')
  const headers = await dataPlaneHeaders(sandbox)
  await sandbox.pause()
  const memory = async () => (await (await api('GET', `/v1/sandboxes/${sandbox.sandboxId}`)).json()).memory
  await until(async () => (await memory()) === 'cold', 'its memory is given back')
  await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 600_000 })
  assert.equal(await sandbox.files.read('/dev/shm/word'), 'kept')
  assert.equal(await output(sandbox, 'cat /proc/sys/kernel/random/boot_id'), boot)
  assert.deepEqual(await dataPlaneHeaders(sandbox), headers)
})

test('T61: one that rests for being idle is shown as running, wakes for a request, and starts to count anew', async () => {
  const answer = await api('POST', '/v2/sandboxes', { templateID: 'base', timeout: 600, pausePolicy: { idlePauseSeconds: 3 } })
  const sandbox = await Sandbox.connect((await answer.json()).sandboxID, { timeoutMs: 600_000 })
  made.push(sandbox)
  await sandbox.files.write('/tmp/kept', 'kept')
  const inspect = async () => (await api('GET', `/v1/sandboxes/${sandbox.sandboxId}`)).json()
  for (let round = 0; round < 2; round++) {
    await until(async () => (await inspect()).idle === true, 'it rests')
    assert.equal((await inspect()).state, 'running')
    assert.equal(await sandbox.files.read('/tmp/kept'), 'kept')
    assert.equal((await inspect()).idle, false)
  }
})

test('the data plane of one that rests: 502 in the documented words', async () => {
  const sandbox = await create()
  const headers = await dataPlaneHeaders(sandbox)
  await sandbox.pause()
  for (const port of ['49983', '8080']) {
    const answer = await fetch(`${apiUrl}/health`, { headers: { ...headers, 'E2b-Sandbox-Port': port } })
    assert.equal(answer.status, 502)
    assert.deepEqual(await answer.json(), { sandboxId: sandbox.sandboxId, message: 'The sandbox was not found', code: 502 })
  }
})
