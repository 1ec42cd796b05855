// Forks as the SDK makes them. SDKs without the call are given what any client can send.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { api, apiUrl, dataPlaneHeaders, failure, newest, sdk, Sandbox, until } from './sdk.mjs'

const made = []
const keep = (sandbox) => { made.push(sandbox); return sandbox }
after(() => Promise.all(made.map((sandbox) => sandbox.kill().catch(() => {}))))

const output = async (sandbox, command, options) => (await sandbox.commands.run(command, options)).stdout.trim()
const identity = async (sandbox) => ({
  id: sandbox.sandboxId,
  token: (await dataPlaneHeaders(sandbox))['X-Access-Token'],
  ...Object.fromEntries((await output(sandbox, 'echo host=$(hostname); echo machine=$(cat /etc/machine-id); echo random=$(head -c 16 /dev/urandom | base64 | tr -d =)'))
    .split('\n').map((line) => line.split('='))),
})
const distinct = (all) => {
  for (const key of Object.keys(all[0])) assert.equal(new Set(all.map((one) => one[key])).size, all.length, `${key}: ${all.map((one) => one[key])}`)
}
const children = (body) => Promise.all(body.map((entry) => { assert.ok(entry.sandbox, JSON.stringify(entry)); return Sandbox.connect(entry.sandbox.sandboxID, { timeoutMs: 600_000 }).then(keep) }))

let parent
before(async () => { parent = keep(await Sandbox.create({ timeoutMs: 900_000, metadata: { suite: 'fork' }, envs: { COLOUR: 'blue' } })) })

if (newest) {
  test('a child has the files and the programs with their pids, and is somebody else; the parent goes on', async () => {
    await parent.files.write('/home/user/kept', 'from the parent')
    const counter = await parent.commands.run('i=0; while :; do i=$((i+1)); echo $i > /tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.05; done', { background: true, timeoutMs: 0 })
    counter.wait().catch(() => {})
    await until(() => parent.files.exists('/tmp/count'), 'the program runs')
    const info = await parent.getInfo()
    const token = (await dataPlaneHeaders(parent))['X-Access-Token']
    const at = Number(await parent.files.read('/tmp/count'))

    const [child] = await parent.fork({ timeoutMs: 600_000 })
    assert.ok(child instanceof Sandbox, String(child))
    keep(child)
    assert.equal(await child.files.read('/home/user/kept'), 'from the parent')
    assert.ok((await child.commands.list()).some((one) => one.pid === counter.pid), 'the program is there under its pid')
    const first = Number(await child.files.read('/tmp/count'))
    assert.ok(first >= at)
    await until(async () => Number(await child.files.read('/tmp/count')) > first, 'the program goes on in the child')
    assert.equal(await output(child, 'echo $COLOUR'), 'blue')
    assert.deepEqual((await child.getInfo()).metadata, info.metadata)
    distinct([await identity(parent), await identity(child)])

    const after = await parent.getInfo()
    assert.equal(after.sandboxId, info.sandboxId)
    assert.deepEqual(after.endAt, info.endAt)
    assert.deepEqual(after.startedAt, info.startedAt)
    assert.equal((await dataPlaneHeaders(parent))['X-Access-Token'], token)
    const now = Number(await parent.files.read('/tmp/count'))
    await until(async () => Number(await parent.files.read('/tmp/count')) > now, 'the program goes on in the parent')

    await child.files.write('/home/user/kept', 'from the child')
    assert.equal(await parent.files.read('/home/user/kept'), 'from the parent')
    await child.commands.kill(counter.pid)
    assert.ok((await parent.commands.list()).some((one) => one.pid === counter.pid))
    await parent.commands.kill(counter.pid)
  })

  test('three children of one fork are three, and the token of the parent opens none', async () => {
    const three = await parent.fork({ count: 3, timeoutMs: 600_000 })
    assert.equal(three.length, 3)
    for (const child of three) keep(child)
    distinct(await Promise.all([parent, ...three].map(identity)))
    const { 'X-Access-Token': token } = await dataPlaneHeaders(parent)
    for (const child of three) {
      const list = (value) => fetch(`${apiUrl}/files?path=/etc/hostname`, { headers: { 'E2b-Sandbox-Id': child.sandboxId, 'E2b-Sandbox-Port': '49983', 'X-Access-Token': value } })
      assert.equal((await list(token)).status, 401)
      assert.equal((await list((await dataPlaneHeaders(child))['X-Access-Token'])).status, 200)
    }
  })

  test('a fork of a fork', async () => {
    await parent.files.write('/home/user/line', '0')
    let last = parent
    for (let generation = 1; generation <= 3; generation++) {
      const [next] = await last.fork({ timeoutMs: 600_000 })
      keep(next)
      assert.equal(await next.files.read('/home/user/line'), String(generation - 1))
      await next.files.write('/home/user/line', String(generation))
      last = next
    }
    assert.equal(await parent.files.read('/home/user/line'), '0')
  })

  test('what rests is not forked, what is unknown is not there', async () => {
    const resting = keep(await Sandbox.create({ timeoutMs: 600_000 }))
    await resting.pause()
    const refused = await failure(resting.fork())
    assert.equal(refused.statusCode, 409, String(refused))
    assert.match(refused.message, /paused/)
    assert.ok(await failure(Sandbox.fork('i' + 'x'.repeat(19))) instanceof sdk.SandboxNotFoundError)
    assert.equal((await failure(parent.fork({ count: 101 }))).statusCode, 400)
  })
}

test('a count that cannot be is refused', async () => {
  for (const count of [0, -1, 101, '2', 1.5]) {
    const answer = await api('POST', `/sandboxes/${parent.sandboxId}/fork`, { count })
    assert.equal(answer.status, 400, String(count))
    const body = await answer.json()
    assert.equal(body.code, 400)
    assert.match(body.message, /count/)
  }
})

test('our own route forks a paused sandbox, which stays so', async () => {
  const resting = keep(await Sandbox.create({ timeoutMs: 600_000 }))
  await resting.files.write('/tmp/note', 'kept')   // /tmp is memory and disk of this guest alone
  const sleeper = await resting.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
  sleeper.wait().catch(() => {})
  assert.equal((await api('POST', `/sandboxes/${resting.sandboxId}/pause`)).status, 204)
  assert.equal((await api('POST', `/sandboxes/${resting.sandboxId}/fork`)).status, 409)
  const answer = await api('POST', `/v1/sandboxes/${resting.sandboxId}/fork`, { count: 2, timeout: 600 })
  assert.equal(answer.status, 201)
  const two = await children(await answer.json())
  assert.equal((await (await api('GET', `/sandboxes/${resting.sandboxId}`)).json()).state, 'paused')
  for (const child of two) {
    assert.equal(await child.files.read('/tmp/note'), 'kept')
    assert.ok((await child.commands.list()).some((one) => one.pid === sleeper.pid))
  }
})

test('a stopped sandbox has children that boot from its disk', async () => {
  const resting = keep(await Sandbox.create({ timeoutMs: 600_000 }))
  await resting.files.write('/home/user/note', 'kept')
  const before = await identity(resting)
  assert.equal((await api('POST', `/v1/sandboxes/${resting.sandboxId}/stop`)).status, 204)
  const answer = await api('POST', `/v1/sandboxes/${resting.sandboxId}/fork`, { timeout: 600 })
  assert.equal(answer.status, 201)
  const [child] = await children(await answer.json())
  assert.equal(await child.files.read('/home/user/note'), 'kept')
  distinct([before, await identity(child)])
})
