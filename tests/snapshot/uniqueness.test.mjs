// What comes back from a snapshot is no twin: random bytes, clocks and identity, before any of the user's programs sees them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Sandbox } from '../e2b/sdk.mjs'
import { Instance } from './instance.mjs'
import { hasMemory, inFresh, long, pauseCold, policy, resume, stdout, upload } from './sandboxes.mjs'

const clones = 50
const restores = long ? 50 : 12

// The first thing a user's program does: the sources of randomness a program takes for its own. A Python costs seconds of emulation, so
// not each of fifty draws with one.
const cheap = [
  // Each read is one step of the kernel's generator: two twins that are some steps apart still meet.
  'dd if=/dev/urandom bs=16 count=200 status=none | od -An -v -tx1 -w16 | tr -d " "',
  'cat /proc/sys/kernel/random/uuid',
  'head -c 16 /dev/urandom | od -An -tx1 | tr -d " \\n"; echo',
  'openssl rand -hex 16',
  'if command -v uuidgen >/dev/null; then uuidgen; fi',
]
const python = `python3 -c '
import os, random, secrets, uuid
print(os.getrandom(16).hex()); print(random.SystemRandom().getrandbits(128)); print(uuid.uuid4()); print(secrets.token_hex(16)); print(random.getrandbits(128))'`

async function drawnBy(sandbox, withPython = true) {
  const lines = (await stdout(sandbox, [...cheap, ...(withPython ? [python] : [])].join('\n'))).trim().split('\n')
  assert.ok(lines.length >= (withPython ? 208 : 203), lines.join(' '))
  return lines
}
const twice = (values) => values.filter((value, i) => values.indexOf(value) !== i)

// Seconds between the guest's clock and ours, at the very first command.
async function clockError(sandbox) {
  const begin = Date.now() / 1000
  const guest = Number(await stdout(sandbox, 'date +%s.%N'))
  const end = Date.now() / 1000
  return guest < begin ? begin - guest : Math.max(0, guest - end)
}

async function forEachClone(count, use, options = {}) {
  const results = []
  for (let at = 0; at < count; at += 5) {
    results.push(...await Promise.all(Array.from({ length: Math.min(5, count - at) }, async (_, i) => {
      const sandbox = await Sandbox.create(options)
      try {
        return await use(sandbox, at + i)
      } finally {
        await Sandbox.kill(sandbox.sandboxId, options)
      }
    })))
  }
  return results
}

test(`${clones} clones of one template: clock, random bytes, boot_id, machine-id and host name are their own`, async () => {
  const seen = await forEachClone(clones, async (sandbox, i) => {
    const error = await clockError(sandbox)
    const identity = (await stdout(sandbox, 'cat /proc/sys/kernel/random/boot_id /etc/machine-id; hostname')).trim().split('\n')
    return { error, identity, drawn: await drawnBy(sandbox, i % 5 === 0) }
  })
  const worst = Math.max(...seen.map((one) => one.error))
  console.log(`# the clock at the first command is off by at most ${(worst * 1000).toFixed(1)} ms`)
  assert.ok(worst < 0.5)
  assert.deepEqual(twice(seen.flatMap((one) => one.drawn)), [])
  assert.deepEqual(twice(seen.flatMap((one) => one.identity)), [])
})

test(`one sandbox restored ${restores} times: fresh random bytes and the right time before its programs go on, monotonic never back`, () => inFresh(async (sandbox) => {
  const program = await upload(sandbox, 'clocks')
  const handle = await sandbox.commands.run(`exec ${program} run /dev/shm/clocks`, { background: true, timeoutMs: 0 })
  handle.wait().catch(() => {})
  const drawn = await drawnBy(sandbox)
  const generations = []
  let worst = 0
  for (let i = 0; i < restores; ++i) {
    await pauseCold(sandbox)
    const begin = Date.now()
    await resume(sandbox)
    drawn.push(...await drawnBy(sandbox, i % 4 === 0))
    const end = Date.now()
    const looks = JSON.parse(await stdout(sandbox, `${program} show /dev/shm/clocks`))
    assert.equal(looks.back, 0)
    generations.push(looks.generation)
    // What the frozen program saw first: not the time of the pause.
    worst = Math.max(worst, begin - looks.stamp_us / 1000, looks.stamp_us / 1000 - end)
    if (i === restores - 1) drawn.push(...looks.draws)
  }
  console.log(`# a program that ran on saw a clock off by at most ${Math.max(0, worst).toFixed(1)} ms; generations ${generations.join(' ')}`)
  assert.ok(worst < 500)
  assert.deepEqual(twice(generations), [])
  assert.deepEqual(twice(drawn), [])
}))

test('a hot pause: the clock is right again, monotonic never goes back', () => inFresh(async (sandbox) => {
  const program = await upload(sandbox, 'clocks')
  const handle = await sandbox.commands.run(`exec ${program} run /dev/shm/clocks`, { background: true, timeoutMs: 0 })
  handle.wait().catch(() => {})
  await policy(sandbox, { hotKeepSeconds: 300 })
  for (let i = 0; i < 5; ++i) {
    assert.equal(await sandbox.pause(), true)
    assert.ok(hasMemory(sandbox))
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    await resume(sandbox)
    assert.ok(await clockError(sandbox) < 0.5)
  }
  const looks = JSON.parse(await stdout(sandbox, `${program} show /dev/shm/clocks`))
  assert.equal(looks.back, 0)
  assert.ok(looks.looks > 100)
}))

test('the test can see: without fresh entropy clones of a template draw equal bytes', async () => {
  const instance = await Instance.start({ options: '--fault no-reseed' })
  try {
    // One after the other and at once: the kernel's own reseeding, seconds later, would hide it.
    const drawn = []
    for (let i = 0; i < 8; ++i) drawn.push(await instance.use((sandbox) => drawnBy(sandbox, false)))
    const equal = twice(drawn.flat())
    console.log(`# with the fault ${equal.length} of ${drawn.flat().length} draws were seen before`)
    assert.ok(equal.length > 0, 'the fault was not noticed')
  } finally {
    instance.stop()
  }
})
