// Crashes: every daemon, all of them at once, the virtual machine, the guest's kernel.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { api, failure, Sandbox, sleep, until } from '../e2b/sdk.mjs'
import { daemon, leakTable, qemuOf, quietTable, supervisor, up, virtualMachines } from './machine.mjs'

let sandbox
before(async () => { sandbox = await Sandbox.create({ timeoutMs: 1_800_000 }) })
after(async () => { await sandbox?.kill() })

// A command that ends with code 7 when told to, started before the crash and asked after it.
const startWitness = (name) => sandbox.commands.run(`while [ ! -e /tmp/${name} ]; do sleep 0.2; done; exit 7`, { background: true, timeoutMs: 0 })

async function exitCodeAfter(pid, name) {
  await until(async () => sandbox.isRunning().catch(() => false), 'the sandbox is reached again')
  const handle = await sandbox.commands.connect(pid, { timeoutMs: 0 })
  await sandbox.files.write(`/tmp/${name}`, '')
  return (await failure(handle.wait())).exitCode
}

for (const name of ['space-noded', 'space-netd', 'space-sandboxd', 'space-control']) {
  test(`kill -9 of ${name} under a running command: it runs on and its exit code arrives`, async () => {
    const witness = await startWitness(name)
    witness.wait().catch(() => {})
    const old = daemon(name)
    assert.ok(old, `${name} runs`)
    const machine = qemuOf(sandbox.sandboxId).pid
    process.kill(old.pid, 'SIGKILL')
    await until(() => (daemon(name)?.pid ?? old.pid) !== old.pid, `${name} is started again`)
    assert.equal(await exitCodeAfter(witness.pid, name), 7)
    assert.equal(qemuOf(sandbox.sandboxId).pid, machine)
  })
}

test('kill -9 of all daemons and their supervisor at once, up again: the command ran on and its exit code arrives', async () => {
  const witness = await startWitness('all')
  witness.wait().catch(() => {})
  const machine = qemuOf(sandbox.sandboxId).pid
  const victims = [supervisor(), ...['space-noded', 'space-netd', 'space-sandboxd', 'space-control'].map((name) => daemon(name).pid)]
  for (const pid of victims) process.kill(pid, 'SIGKILL')
  await until(() => ['space-noded', 'space-netd', 'space-sandboxd', 'space-control'].every((name) => !daemon(name)), 'all are dead')
  assert.ok(virtualMachines().some((p) => p.pid === machine), 'the virtual machine runs on without any daemon')
  up()
  assert.equal(await exitCodeAfter(witness.pid, 'all'), 7)
  assert.equal(qemuOf(sandbox.sandboxId).pid, machine)
})

test('after all that a new sandbox is made and works', async () => {
  const fresh = await Sandbox.create()
  assert.equal((await fresh.commands.run("python3 -c 'print(6*7)'")).stdout, '42\n')
  await fresh.kill()
})

// Of a sandbox that nothing brings back; what the others go on from is tests/snapshot/recovery.test.mjs.
async function diesWith(kill, expected) {
  const table = await quietTable()
  const doomed = await Sandbox.create()
  const policy = await api('PUT', `/v1/sandboxes/${doomed.sandboxId}/recovery`, { policy: 'none' })
  assert.equal(policy.status, 200, await policy.text())
  const handle = await doomed.commands.run('sleep 600', { background: true, timeoutMs: 0 })
  const stream = failure(handle.wait())
  const begin = Date.now()
  await kill(doomed)
  let reason = ''
  await until(async () => {
    const answer = await api('GET', `/sandboxes/${doomed.sandboxId}`)
    if (answer.status !== 404) return false
    reason = (await answer.json()).message
    return true
  }, 'the death is reported')
  console.log(`# reported after ${Date.now() - begin} ms: ${reason}`)
  assert.match(reason, expected)
  await stream
  assert.equal(await doomed.isRunning(), false)
  await until(() => JSON.stringify(leakTable()) === JSON.stringify(table), 'nothing of it is left', 20_000).catch(() => assert.deepEqual(leakTable(), table))
}

test('kill -9 of QEMU: the cause is reported and nothing is left', () =>
  diesWith((doomed) => process.kill(qemuOf(doomed.sandboxId).pid, 'SIGKILL'), /signal 9/))

test('the guest powers off: reported, nothing left', () =>
  diesWith((doomed) => doomed.commands.run('sudo sh -c "echo o > /proc/sysrq-trigger"', { timeoutMs: 5_000 }).catch(() => {}), /powered off/))

test("the guest's kernel panics: reported, nothing left", () =>
  diesWith((doomed) => doomed.commands.run('sudo sh -c "echo c > /proc/sysrq-trigger"', { timeoutMs: 5_000 }).catch(() => {}), /panicked/))

test('a guest frozen by its own root harms nobody else', async () => {
  const stuck = await Sandbox.create()
  process.kill(qemuOf(stuck.sandboxId).pid, 'SIGSTOP')
  await sleep(500)
  assert.equal((await sandbox.commands.run('echo fine')).stdout, 'fine\n')
  assert.equal(await Sandbox.kill(stuck.sandboxId), true)
})
