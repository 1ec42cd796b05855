// Faults of the host: no room on the pool, no memory, missing or broken parts. Each create fails with its cause and
// what to do in bounded time, leaves nothing, and once the fault is mended the same instance works.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { failure, Sandbox, sleep, until } from '../e2b/sdk.mjs'
import { Instance } from './instance.mjs'
import { quietTable, settled } from './machine.mjs'

async function works(instance) {
  const sandbox = await instance.create()
  assert.equal((await sandbox.commands.run('echo fine')).stdout, 'fine\n')
  assert.equal(await Sandbox.kill(sandbox.sandboxId, instance.options()), true)
}
const infoOf = async (instance, sandbox) => JSON.parse(instance.space('info', sandbox.sandboxId, '--json', '--api-url', instance.url, '--api-key', instance.key))

test('a full pool: no new sandbox, those that run wait for room, deleting makes it', async () => {
  const instance = await Instance.start({ flags: ['--pool-mib', '1024'] })
  try {
    const table = await quietTable(instance)
    const [filler, writer] = [await instance.create(), await instance.create()]
    // More than the pool has left; the guest's own disk is far from full.
    const filling = filler.commands.run('dd if=/dev/zero of=/filler bs=1M count=3000 conv=fsync', { user: 'root', timeoutMs: 0 }).catch((error) => error)
    let refused
    await until(async () => {
      refused = await instance.tryCreate()
      if (refused.status === 201) await Sandbox.kill(refused.sandboxID, instance.options())
      else return true
      await sleep(1_000)
    }, 'the pool is full', 240_000)
    console.log(`# ${refused.status} ${refused.error_code}: ${refused.message}`)
    assert.deepEqual([refused.status, refused.error_code], [503, 'sandbox_capacity_unavailable'])
    assert.match(refused.message, /pool is full.*Kill sandboxes/)
    assert.equal((await failure(instance.create())).constructor.name, 'ServiceBusyError')

    // Another sandbox writes into the full pool: it stands still, is still there, and goes on once there is room.
    const log = () => instance.execute(['cat', `${instance.state}/space.log`])
    await until(() => log().includes('VM stopped: the pool is full'), 'the filler waits for room', 240_000)
    const writing = writer.commands.run('dd if=/dev/urandom of=/data bs=1M count=64 conv=fsync 2>/dev/null; sha256sum /data > /sum; sync', { user: 'root', background: true, timeoutMs: 0 }).catch(() => {})
    await sleep(10_000)
    assert.equal((await infoOf(instance, writer)).state, 'running')
    const killed = await instance.kill(filler)
    // Alive until now, or its end was told.
    assert.ok(killed.status === 204 || /ran out of memory/.test(killed.message), `${killed.status} ${killed.message}`)
    await Promise.all([filling, writing])
    await until(async () => (await writer.commands.run('sha256sum -c /sum', { user: 'root', timeoutMs: 30_000 }).catch(() => ({ stdout: '' }))).stdout.includes('OK'), 'what was written is there', 240_000)
    assert.ok(log().includes('VM goes on'))
    // btrfs gives the room of what was deleted back in the background.
    await until(() => works(instance).then(() => true, (error) => { if (error.constructor.name !== 'ServiceBusyError') throw error }), 'a new sandbox is made', 120_000)
    await Sandbox.kill(writer.sandboxId, instance.options())
    await settled(table, instance)
  } finally {
    instance.stop()
  }
})

test('no memory left to promise: 503, the others run on, a kill makes room', async () => {
  const instance = await Instance.start({ flags: ['--memory-limit-mib', '1300'] })
  try {
    const table = await quietTable(instance)
    const [first, second] = await Promise.all([instance.create(), instance.create()])
    const refused = await instance.tryCreate()
    console.log(`# ${refused.status} ${refused.error_code}: ${refused.message}`)
    assert.deepEqual([refused.status, refused.error_code], [503, 'sandbox_capacity_unavailable'])
    assert.match(refused.message, /memory.*Kill\s+sandboxes/)
    for (const sandbox of [first, second]) assert.equal((await sandbox.commands.run('echo alive')).stdout, 'alive\n')
    await Sandbox.kill(first.sandboxId, instance.options())
    await works(instance)
    await Sandbox.kill(second.sandboxId, instance.options())
    await settled(table, instance)
  } finally {
    instance.stop()
  }
})

let broken
before(async () => { broken = await Instance.start({ ownMounts: true }) })
after(() => broken?.stop())

const kernel = () => broken.inside(`echo ${broken.state}/pool/snapshots/*/1/vmlinuz`).trim()
const unlock = (yes) => `btrfs property set ${kernel().replace('/vmlinuz', '')} ro ${yes ? 'false' : 'true'}`
const qemu = () => broken.inside(`ls -d ${broken.state}/vmm/*`).trim() + '/vmm'
const faults = [
  ['/dev/net/tun is missing', () => 'mount -t tmpfs none /dev/net', () => 'umount /dev/net', /tun/],
  ['/dev/net/tun cannot be used', () => 'mount --bind /dev/null /dev/net/tun', () => 'umount /dev/net/tun', /tap/],
  ["the node's copy of QEMU is missing", () => `mv ${qemu()} ${qemu()}.away`, () => `mv ${qemu()}.away ${qemu()}`, /vmm/],
  ["the node's copy of QEMU is broken", () => `mv ${qemu()} ${qemu()}.away; printf x > ${qemu()}; chmod 755 ${qemu()}`, () => `mv ${qemu()}.away ${qemu()}`, /exec/i],
  ["the checkpoint's kernel is missing", () => `${unlock(true)}; mv ${kernel()} ${kernel()}.away; ${unlock(false)}`, () => `d=$(dirname ${broken.state}/pool/snapshots/*/1/vmlinuz.away); btrfs property set $d ro false; mv $d/vmlinuz.away $d/vmlinuz; btrfs property set $d ro true`, /vmlinuz/],
  ["the checkpoint's kernel is garbage", () => `${unlock(true)}; cp ${kernel()} ${kernel()}.away; head -c 100000 /dev/urandom > ${kernel()}; ${unlock(false)}`, () => `d=$(dirname ${broken.state}/pool/snapshots/*/1/vmlinuz.away); btrfs property set $d ro false; mv $d/vmlinuz.away $d/vmlinuz; btrfs property set $d ro true`, /VMM|guest|QEMU/],
]
for (const [what, breakIt, mendIt, cause] of faults) {
  test(`${what}: create says so, nothing is left, mended it works`, async () => {
    const table = await quietTable(broken)
    broken.inside(breakIt())
    const begin = Date.now()
    const refused = await broken.tryCreate().finally(() => broken.inside(mendIt()))
    console.log(`# after ${Date.now() - begin} ms: ${refused.status} ${refused.error_code}: ${refused.message}`)
    assert.ok([500, 503].includes(refused.status))
    assert.equal(refused.error_code, 'sandbox_create_failed')
    assert.match(refused.message, cause)
    await settled(table, broken)
    await works(broken)
    await settled(table, broken)
  })
}

test('the QEMU package is broken while the node runs: its copy goes on', async () => {
  broken.inside('mount --bind /dev/null /usr/bin/qemu-system-x86_64')
  try {
    await works(broken)
  } finally {
    broken.inside('umount /usr/bin/qemu-system-x86_64')
  }
})
