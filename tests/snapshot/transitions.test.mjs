// Pause and resume as clients do them: at once, side by side, in each other's way, and in the middle of everything.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { api, apiUrl, dataPlaneHeaders, failure, Sandbox, sdk, sleep, until } from '../e2b/sdk.mjs'
import { qemuOf, quietTable, settled } from '../system/machine.mjs'
import { checkpoint, inFresh, life, long, ok, pauseCold, policy, resume, stdout, whenCold } from './sandboxes.mjs'

let table
before(async () => { table = await quietTable() })
after(async () => { await settled(table) })

const ways = 8
const loops = long ? 100 : 25

test(`pause, resume, exec without a gap, ${ways} ways, ${ways * loops} times`, async () => {
  const sandboxes = await Promise.all(Array.from({ length: ways }, () => Sandbox.create(life)))
  try {
    let done = 0
    await Promise.all(sandboxes.map(async (sandbox, way) => {
      for (let i = 0; i < loops; ++i) {
        if (way % 4 === 0) await policy(sandbox, { hotKeepSeconds: i % 5 ? 300 : 0 }) // two of them through a checkpoint now and then
        assert.equal(await sandbox.pause(), true)
        await resume(sandbox)
        assert.equal(await stdout(sandbox, `echo ${way}-${i}`), `${way}-${i}\n`)
        ++done
      }
    }))
    assert.equal(done, ways * loops)
  } finally {
    await Promise.all(sandboxes.map((sandbox) => sandbox.kill()))
  }
})

test('what E2B answers: pause once true and then false, paused for every call, connect brings it back with its token', () => inFresh(async (sandbox) => {
  assert.equal(await sandbox.pause(), true)
  assert.equal(await sandbox.pause(), false)
  assert.equal((await api('POST', `/sandboxes/${sandbox.sandboxId}/pause`)).status, 409)
  const info = await sandbox.getInfo()
  assert.equal(info.state, 'paused')
  assert.equal(await sandbox.isRunning(), false)
  const found = async (state) => (await Sandbox.list({ query: { state: [state] } }).nextItems()).some((one) => one.sandboxId === sandbox.sandboxId)
  assert.deepEqual([await found('paused'), await found('running')], [true, false])
  assert.ok(await failure(sandbox.commands.run('true')))
  assert.equal((await api('POST', `/v2/sandboxes/${sandbox.sandboxId}/connect`, { timeout: 600 })).status, 201)
  assert.equal((await api('POST', `/v2/sandboxes/${sandbox.sandboxId}/connect`, { timeout: 600 })).status, 200)
  assert.equal((await api('POST', `/sandboxes/${sandbox.sandboxId}/resume`, { timeout: 600 })).status, 409)
  assert.equal(await stdout(sandbox, 'echo back'), 'back\n') // the token it has had all the time
  assert.equal((await api('POST', '/sandboxes/ixxxxxxxxxxxxxxxxxxx/pause')).status, 404)
}))

test('resume during a pause: both answer, the sandbox runs and kept everything', () => inFresh(async (sandbox) => {
  for (let i = 0; i < (long ? 40 : 10); ++i) {
    await policy(sandbox, { hotKeepSeconds: i % 2 ? 0 : 300 })
    await stdout(sandbox, `echo ${i} > /dev/shm/mark`)
    const pausing = sandbox.pause()
    await sleep((i * 13) % 90)
    await resume(sandbox)
    await pausing
    await resume(sandbox) // the pause may have come second
    assert.equal(await stdout(sandbox, 'cat /dev/shm/mark'), `${i}\n`)
  }
}))

const killed = async (sandbox) => {
  assert.equal((await api('DELETE', `/sandboxes/${sandbox.sandboxId}`)).status, 204)
  assert.equal((await api('GET', `/sandboxes/${sandbox.sandboxId}`)).status, 404)
  assert.equal(qemuOf(sandbox.sandboxId), undefined)
}
const cold = { hotKeepSeconds: 0 }
// What is under way may end however it likes.
const underWay = (promise) => promise.then((value) => value?.status ?? 'done', (error) => error.message)
// Each brings a sandbox into a state, or on its way there: then it answers, in a list, what is under way.
const states = {
  'pausing': async (sandbox, delay) => { const going = underWay(sandbox.pause()); await sleep(delay); return [going] },
  'paused hot': async (sandbox) => { await sandbox.pause() },
  'paused, its checkpoint under way': async (sandbox, delay) => { await policy(sandbox, cold); await sandbox.pause(); await sleep(delay) },
  'paused cold': async (sandbox) => { await pauseCold(sandbox) },
  'resuming hot': async (sandbox, delay) => { await sandbox.pause(); const going = underWay(resume(sandbox)); await sleep(delay / 4); return [going] },
  'resuming from a checkpoint': async (sandbox, delay) => { await pauseCold(sandbox); const going = underWay(resume(sandbox)); await sleep(delay); return [going] },
  'stopping': async (sandbox, delay) => { const going = underWay(api('POST', `/v1/sandboxes/${sandbox.sandboxId}/stop`)); await sleep(delay); return [going] },
  'stopped': async (sandbox) => { await ok(await api('POST', `/v1/sandboxes/${sandbox.sandboxId}/stop`)) },
  'starting': async (sandbox, delay) => {
    await ok(await api('POST', `/v1/sandboxes/${sandbox.sandboxId}/stop`))
    const going = underWay(api('POST', `/v1/sandboxes/${sandbox.sandboxId}/start`, { timeout: 600 }))
    await sleep(delay)
    return [going]
  },
  'checkpointing': async (sandbox, delay) => { const going = underWay(checkpoint(sandbox)); await sleep(delay); return [going] },
}
for (const [state, bring] of Object.entries(states)) {
  test(`kill wins while it is ${state}, and nothing is left`, async () => {
    const own = await quietTable()
    for (const delay of [5, 60]) {
      const sandbox = await Sandbox.create(life)
      const going = await bring(sandbox, delay)
      await killed(sandbox)
      if (going) console.log(`# ${state} for ${delay} ms: ${await Promise.all(going)}`)
    }
    await settled(own)
  })
}

test('a pause in the middle of 100 MB of output: the stream breaks, the program goes on to its end', () => inFresh(async (sandbox) => {
  const handle = await sandbox.commands.run('head -c 100000000 /dev/zero | tr "\\0" x; echo done > /tmp/done', { background: true, timeoutMs: 0, onStdout: () => {} })
  const outcome = failure(handle.wait())
  await until(() => handle.stdout.length > 1_000_000, 'output comes')
  await pauseCold(sandbox)
  const error = await outcome
  assert.ok(!(error instanceof sdk.CommandExitError), `an exit code was invented: ${error}`)
  assert.ok(handle.stdout.length < 100_000_000)
  await resume(sandbox)
  const again = await sandbox.commands.connect(handle.pid, { timeoutMs: 0 })
  assert.equal((await again.wait()).exitCode, 0)
  assert.equal(await stdout(sandbox, 'cat /tmp/done'), 'done\n')
}))

test('a pause under a terminal: the shell is there again with what it knew', () => inFresh(async (sandbox) => {
  let text = ''
  const onData = (data) => { text += Buffer.from(data).toString() }
  const pty = await sandbox.pty.create({ cols: 80, rows: 24, onData, timeoutMs: 0 })
  pty.wait().catch(() => {})
  const type = (line) => sandbox.pty.sendInput(pty.pid, new TextEncoder().encode(line))
  await type('KNOWN=kept; cd /tmp; echo rea""dy\n')
  await until(() => text.includes('ready'), 'the shell answers')
  await pauseCold(sandbox)
  await resume(sandbox)
  const again = await sandbox.pty.connect(pty.pid, { onData, timeoutMs: 0 })
  again.wait().catch(() => {})
  await type('echo "<$KNOWN $PWD>"\n')
  await until(() => text.includes('<kept /tmp>'), 'the same shell answers')
}))

test('a pause in the middle of an upload: an error, never half a file that looks whole', () => inFresh(async (sandbox) => {
  const size = 60_000_000
  const headers = { ...(await dataPlaneHeaders(sandbox)), 'Content-Type': 'application/octet-stream' }
  let sent = 0
  async function* body() {
    for (; sent < size; sent += 1_000_000) { yield Buffer.alloc(1_000_000, 120); await sleep(20) }
  }
  const uploading = fetch(`${apiUrl}/files?path=/home/user/big&username=user`, { method: 'POST', headers, body: body(), duplex: 'half' }).then((answer) => answer.status, () => 'broken')
  await until(() => sent > 5_000_000, 'the upload is under way')
  await pauseCold(sandbox)
  const outcome = await uploading
  await resume(sandbox)
  const there = (await stdout(sandbox, 'stat -c %s /home/user/big 2>/dev/null || echo none')).trim()
  console.log(`# the upload: ${outcome}; the file: ${there}`)
  assert.notEqual(outcome, 200)
  assert.ok(there !== String(size))
  await sandbox.files.write('/home/user/big', 'again')
  assert.equal(await sandbox.files.read('/home/user/big'), 'again')
}))

test('three pauses in the middle of a build: it ends with what it would have made', () => inFresh(async (sandbox) => {
  // Compiles all of Python's library, process by process: files, forks and pipes.
  const build = 'mkdir -p /tmp/lib && cp /usr/lib/python3.1*/*.py /tmp/lib/ && ' +
    'find /tmp/lib -name "*.py" | sort | head -n 60 | xargs -n 20 -P 2 python3 -m py_compile; echo $? > /tmp/code'
  const handle = await sandbox.commands.run(build, { background: true, timeoutMs: 0 })
  handle.wait().catch(() => {})
  for (let i = 0; i < 3; ++i) {
    await sleep(1_500)
    await pauseCold(sandbox)
    await resume(sandbox)
  }
  await until(async () => (await stdout(sandbox, 'cat /tmp/code 2>/dev/null || true')) !== '', 'the build ends', 240_000)
  const made = await stdout(sandbox, 'find /tmp/lib -name "*.pyc" -size +0 | wc -l; find /tmp/lib -name "*.py" | sort | head -n 60 | wc -l')
  assert.deepEqual(made.trim().split('\n')[0], made.trim().split('\n')[1])
}))

test('a git clone survives ten checkpoints', () => inFresh(async (sandbox) => {
  await stdout(sandbox, `git init -q /tmp/from && cd /tmp/from && git config user.email a@b && git config user.name a &&
    python3 -c "
import os, random
for i in range(300):
    open(f'f{i}', 'wb').write(random.randbytes(20000) + b'text' * 2000)" && git add . && git commit -qm one`)
  const handle = await sandbox.commands.run('for i in 1 2 3 4; do rm -rf /tmp/to; git clone -q --no-local /tmp/from /tmp/to || exit 1; done; cd /tmp/to && git fsck --full && git rev-parse HEAD > /tmp/head', { background: true, timeoutMs: 0 })
  const ended = handle.wait()
  for (let i = 0; i < 10; ++i) await checkpoint(sandbox)
  assert.equal((await ended).exitCode, 0)
  assert.equal(await stdout(sandbox, 'cat /tmp/head'), await stdout(sandbox, 'git -C /tmp/from rev-parse HEAD'))
  assert.equal(await stdout(sandbox, 'git -C /tmp/to status --porcelain'), '')
}))

test('a hundred requests at once to a paused sandbox that resumes by itself start one resume', async () => {
  const sandbox = await Sandbox.create({ ...life, lifecycle: { onTimeout: 'pause', autoResume: true } })
  try {
    await sandbox.files.write('/home/user/word', 'here')
    const headers = await dataPlaneHeaders(sandbox) // asks the API, so before the pause
    for (const hotKeepSeconds of [300, 0]) {
      await policy(sandbox, { hotKeepSeconds })
      const generation = await stdout(sandbox, 'cat /run/space/generation')
      assert.equal(await sandbox.pause(), true)
      if (hotKeepSeconds === 0) await whenCold(sandbox)
      const machines = new Set()
      // Its own: the pool may be filling beside it.
      const watch = setInterval(() => { const machine = qemuOf(sandbox.sandboxId); if (machine) machines.add(machine.pid) }, 5).unref()
      const answers = await Promise.all(Array.from({ length: 100 }, async () => {
        const answer = await fetch(`${apiUrl}/files?path=/home/user/word&username=user`, { headers })
        return `${answer.status} ${await answer.text()}`
      }))
      clearInterval(watch)
      assert.deepEqual([...new Set(answers)], ['200 here'])
      assert.equal(machines.size, 1, 'one machine was started')
      const now = await stdout(sandbox, 'cat /run/space/generation')
      if (hotKeepSeconds === 0) assert.equal(Number(now), Number(generation) + 1)
      else assert.equal(now, generation)
    }
  } finally {
    await sandbox.kill()
  }
})

test('a timeout pauses where that was asked for, and connect finds everything', async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 3_000, lifecycle: { onTimeout: 'pause' } })
  try {
    await sandbox.files.write('/dev/shm/word', 'kept')
    await until(async () => (await sandbox.getInfo()).state === 'paused', 'the timeout pauses it')
    await resume(sandbox)
    assert.equal(await sandbox.files.read('/dev/shm/word'), 'kept')
  } finally {
    await sandbox.kill()
  }
})
