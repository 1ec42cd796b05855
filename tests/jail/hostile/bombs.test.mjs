// Bombs in one sandbox: its neighbour's commands work, its own daemon answers, and the daemons of the host hold what they
// held. What a bomb does to its own user is tests/system/faults.test.mjs'.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Sandbox, sleep, until } from '../../e2b/sdk.mjs'
import { qemuOf, quietTable, settled } from '../../system/machine.mjs'
import { memoryBounded, Neighbour } from './neighbour.mjs'

const boundMib = 48
let table, neighbour
before(async () => {
  table = await quietTable()
  neighbour = new Neighbour(await Sandbox.create({ timeoutMs: 1_800_000 }))
})
after(async () => {
  await neighbour?.sandbox.kill()
  await settled(table)
})

const answers = (sandbox) => sandbox.commands.run('/bin/true', { user: 'root', timeoutMs: 60_000, requestTimeoutMs: 60_000 }).then((result) => result.exitCode === 0, () => false)

const bombs = {
  // [what root runs, a command that shows that it went off]
  processes: ['bomb() { bomb | bomb & }; bomb; sleep 30', 'test $(ls -d /proc/[0-9]* | wc -l) -gt 300', 'user'],
  memory: ["while :; do python3 -c 'x = [bytearray(1 << 20) for _ in range(4096)]'; echo $? >> /tmp/ends; done", 'grep -q 137 /tmp/ends', 'root'],
  disk: ['dd if=/dev/zero of=/filler bs=1M; sleep 60', 'test $(stat -c %s /filler) -gt 100000000', 'root'],
  // Root passes the machine's own limit, and goes on until there is no memory for more.
  descriptors: [`python3 -c 'import os\nfor _ in range(100):\n  if os.fork() == 0: break\nwhile True: os.open("/dev/null", 0)'`, 'test $(cut -f1 /proc/sys/fs/file-nr) -gt $(cat /proc/sys/fs/file-max)', 'root'],
  processor: ['for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait', 'test $(cut -d. -f1 /proc/loadavg) -ge 1 -o $(pgrep -c bash) -gt 8', 'root'],
  console: ['for t in /dev/console /dev/kmsg /dev/ttyS0; do (yes "flood of the console" > $t) & done; sleep 60', 'pgrep -c yes', 'root'],
  entropy: ['for d in /dev/random /dev/urandom /dev/hwrng; do (cat $d > /dev/null) & done; sleep 60', 'pgrep -c cat', 'root'],
}

for (const [name, [command, sign, user]] of Object.entries(bombs)) {
  test(`a bomb of ${name}: the neighbour works, the bombed daemon answers`, async () => {
    const sandbox = await Sandbox.create({ timeoutMs: 600_000 })
    try {
      await memoryBounded(name, boundMib, () => neighbour.during(`bomb of ${name}`, async () => {
        const bomb = await sandbox.commands.run(command, { user, background: true, timeoutMs: 0 })
        bomb.wait().catch(() => {})
        await until(() => sandbox.commands.run(sign, { user: 'root', timeoutMs: 30_000, requestTimeoutMs: 30_000 }).then(() => true, () => false), 'the bomb goes off', 60_000)
        await sleep(2_000)
        await until(() => answers(sandbox), 'the bombed daemon answers', 60_000)
        assert.ok(qemuOf(sandbox.sandboxId), 'its VM is there')
      }))
    } finally {
      assert.equal(await Sandbox.kill(sandbox.sandboxId), true)
    }
  })
}
