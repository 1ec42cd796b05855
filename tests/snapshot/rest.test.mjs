// What the node does by itself: idle pause, hot then cold, a planned end and the return from it; stop and start; hooks.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { api, Sandbox, sleep, until } from '../e2b/sdk.mjs'
import { daemon, qemuOf, run, space, state, up } from '../system/machine.mjs'
import { Asked, detail, hasMemory, inFresh, life, ok, pauseCold, policy, resume, snapshots, stdout, upload, whenCold } from './sandboxes.mjs'

const start = async (sandbox) => { await ok(await api('POST', `/v1/sandboxes/${sandbox.sandboxId}/start`, { timeout: 1800 })) }
const stop = async (sandbox) => { await ok(await api('POST', `/v1/sandboxes/${sandbox.sandboxId}/stop`)) }

test('an idle sandbox is paused where nobody sees it: running for E2B, its end goes on, the next call finds it', () => inFresh(async (sandbox) => {
  await sandbox.files.write('/dev/shm/word', 'kept')
  await policy(sandbox, { idlePauseSeconds: 2, hotKeepSeconds: 300 })
  const { endAt } = await sandbox.getInfo()
  await until(async () => (await detail(sandbox)).idle === true, 'it is paused for being idle')
  assert.equal((await detail(sandbox)).memory, 'hot')
  const info = await sandbox.getInfo()
  assert.equal(info.state, 'running')
  assert.equal(info.endAt.getTime(), endAt.getTime())
  assert.ok((await Sandbox.list({ query: { state: ['running'] } }).nextItems()).some((one) => one.sandboxId === sandbox.sandboxId))
  assert.equal((await detail(sandbox)).idle, true, 'looking wakes nobody')
  assert.equal(await sandbox.files.read('/dev/shm/word'), 'kept')
  assert.equal((await detail(sandbox)).idle, false)
}))

test('it turns cold after its time, and the next call finds it still', () => inFresh(async (sandbox) => {
  await sandbox.files.write('/dev/shm/word', 'kept')
  await policy(sandbox, { idlePauseSeconds: 2, hotKeepSeconds: 2 })
  await until(async () => (await detail(sandbox)).idle === true, 'it is paused for being idle')
  await whenCold(sandbox)
  assert.deepEqual([(await detail(sandbox)).memory, (await sandbox.getInfo()).state], ['cold', 'running'])
  assert.equal(await sandbox.files.read('/dev/shm/word'), 'kept')
  assert.ok(hasMemory(sandbox))
}))

test('who works is not idle: a command under way, a program that computes', () => inFresh(async (sandbox) => {
  await policy(sandbox, { idlePauseSeconds: 2, hotKeepSeconds: 300 })
  let idle = false
  const watch = setInterval(() => detail(sandbox).then((seen) => { idle ||= seen.idle }, () => {}), 200).unref()
  await stdout(sandbox, 'sleep 7')
  assert.equal(idle, false, 'an open stream')
  await stdout(sandbox, 'setsid sh -c "end=$(($(date +%s) + 8)); while [ $(date +%s) -lt $end ]; do :; done" >/dev/null 2>&1 & disown')
  await sleep(6_000)
  assert.equal(idle, false, 'a detached program')
  await until(() => idle, 'it is paused once nothing happens any more')
  clearInterval(watch)
}))

test('a hot pause keeps its memory, then lets it go by itself', () => inFresh(async (sandbox) => {
  await policy(sandbox, { hotKeepSeconds: 3 })
  await sandbox.files.write('/dev/shm/word', 'kept')
  assert.equal(await sandbox.pause(), true)
  const { pid } = qemuOf(sandbox.sandboxId)
  assert.equal((await detail(sandbox)).memory, 'hot')
  await resume(sandbox)
  assert.equal(qemuOf(sandbox.sandboxId).pid, pid, 'the same machine goes on')
  assert.equal(await sandbox.pause(), true)
  await whenCold(sandbox)
  const kept = (await snapshots(sandbox)).at(-1)
  await resume(sandbox)
  assert.notEqual(qemuOf(sandbox.sandboxId).pid, pid)
  assert.equal(await sandbox.files.read('/dev/shm/word'), 'kept')
  assert.deepEqual((await detail(sandbox)).restoredFrom, { sandboxID: sandbox.sandboxId, number: kept.number })
}))

test('space down and up: running sandboxes and their programs go on, paused ones stay paused', async () => {
  const sandboxes = await Promise.all(Array.from({ length: 3 }, () => Sandbox.create(life)))
  const paused = await Sandbox.create(life)
  try {
    const programs = []
    for (const sandbox of sandboxes) {
      const program = await Asked.start(sandbox, `exec ${await upload(sandbox, 'dirty')} 32`)
      await program.line('start')
      programs.push({ program, sum: await program.ask('sum') })
    }
    await paused.files.write('/dev/shm/word', 'kept')
    assert.equal(await paused.pause(), true)
    const before = daemon('space-sandboxd').pid
    space('down', '--state', state, '--run', run)
    assert.ok([...sandboxes, paused].every((sandbox) => !hasMemory(sandbox)), 'no machine is left')
    up()
    assert.notEqual(daemon('space-sandboxd').pid, before)
    for (const [i, sandbox] of sandboxes.entries()) {
      await until(async () => sandbox.isRunning().catch(() => false), 'it runs again', 60_000)
      await programs[i].program.again()
      assert.equal(await programs[i].program.ask('sum'), programs[i].sum)
      assert.equal((await sandbox.getInfo()).state, 'running')
    }
    assert.equal((await paused.getInfo()).state, 'paused')
    await resume(paused)
    assert.equal(await paused.files.read('/dev/shm/word'), 'kept')
  } finally {
    await Promise.all([...sandboxes, paused].map((sandbox) => Sandbox.kill(sandbox.sandboxId)))
  }
})

test('stop and start keep files and environment, not memory; a start boots anew', () => inFresh(async (sandbox) => {
  await sandbox.files.write('/home/user/file', 'kept')
  await sandbox.files.write('/dev/shm/word', 'lost')
  const boot = await stdout(sandbox, 'cat /proc/sys/kernel/random/boot_id')
  for (const from of ['running', 'paused']) {
    if (from === 'paused') await sandbox.pause()
    await stop(sandbox)
    assert.ok(!hasMemory(sandbox))
    assert.equal((await sandbox.getInfo()).state, 'paused')
    await stop(sandbox) // again is fine
    await start(sandbox)
    assert.equal(await sandbox.files.read('/home/user/file'), 'kept')
    assert.equal(await stdout(sandbox, 'echo $GIVEN'), 'at create\n')
    assert.equal(await stdout(sandbox, 'ls /dev/shm'), '')
    assert.notEqual(await stdout(sandbox, 'cat /proc/sys/kernel/random/boot_id'), boot)
  }
}, { envs: { GIVEN: 'at create' } }))

test('a pause without memory and a connect that boots: as stop and start', () => inFresh(async (sandbox) => {
  await sandbox.files.write('/home/user/file', 'kept')
  assert.equal((await api('POST', `/sandboxes/${sandbox.sandboxId}/pause`, { memory: false })).status, 204)
  assert.equal((await detail(sandbox)).memory, 'none')
  await resume(sandbox)
  assert.equal(await sandbox.files.read('/home/user/file'), 'kept')
  await sandbox.files.write('/dev/shm/word', 'dropped')
  await pauseCold(sandbox)
  await ok(await api('POST', `/v2/sandboxes/${sandbox.sandboxId}/connect`, { timeout: 600, memory: false }))
  assert.equal(await sandbox.files.read('/home/user/file'), 'kept')
  assert.equal(await stdout(sandbox, 'ls /dev/shm'), '')
}))

test('post-restore.d runs before the programs go on, in order; one that fails stops nothing; the generation grows', () => inFresh(async (sandbox) => {
  await stdout(sandbox, 'mkdir -p /etc/space/post-restore.d', { user: 'root' })
  for (const [name, text] of [['10-first', 'echo first >> /tmp/hooks; cat /run/space/generation >> /tmp/seen'], ['20-fails', 'exit 3'], ['30-last', 'echo last >> /tmp/hooks']])
    await sandbox.files.write(`/etc/space/post-restore.d/${name}`, `#!/bin/sh\n${text}\n`, { user: 'root' })
  await stdout(sandbox, 'chmod +x /etc/space/post-restore.d/*', { user: 'root' })
  // Writes down, again and again, whether the hooks have run: after a restore never no.
  await stdout(sandbox, 'setsid sh -c \'last=$(cat /run/space/generation); while :; do now=$(cat /run/space/generation); if [ "$now" != "$last" ]; then wc -l < /tmp/hooks >> /tmp/order; last=$now; fi; sleep 0.01; done\' >/dev/null 2>&1 & disown')
  const before = Number(await stdout(sandbox, 'cat /run/space/generation'))
  for (let i = 1; i <= 2; ++i) {
    await pauseCold(sandbox)
    await resume(sandbox)
    const now = Number(await stdout(sandbox, 'cat /run/space/generation'))
    assert.equal(now, before + i)
    assert.equal((await detail(sandbox)).generationCounter, now)
  }
  assert.equal(await stdout(sandbox, 'cat /tmp/hooks'), 'first\nlast\nfirst\nlast\n')
  await until(async () => (await stdout(sandbox, 'cat /tmp/order 2>/dev/null || true')) !== '', 'the program saw the generation')
  assert.ok((await stdout(sandbox, 'cat /tmp/order')).trim().split('\n').every((count) => Number(count) >= 2))
  assert.match(await stdout(sandbox, 'cat /tmp/seen'), new RegExp(`^${before + 1}\\n?${before + 2}`))
}))
