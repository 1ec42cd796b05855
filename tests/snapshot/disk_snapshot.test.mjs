// Snapshots of the disk while the sandbox works: nobody who talks to it notices, what is kept is whole, what fails leaves nothing.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { after, before, test } from 'node:test'
import { apiUrl, dataPlaneHeaders, sleep, until } from '../e2b/sdk.mjs'
import { daemon, qemuOf, quietTable, settled } from '../system/machine.mjs'
import { boot, Branches, put, word } from './branches.mjs'
import { Instance } from './instance.mjs'
import { inFresh, stdout, pauseCold } from './sandboxes.mjs'

const here = new Branches()
let table
before(async () => { table = await quietTable() })
after(async () => { await settled(table) })

test('a server in the guest is asked all the time: no request fails while fifty disk snapshots and ten checkpoints are taken', () => inFresh(async (sandbox) => {
  await stdout(sandbox, 'mkdir -p /tmp/www && echo here > /tmp/www/page')
  const server = await sandbox.commands.run('cd /tmp/www && exec python3 -u -m http.server 8000', { background: true, timeoutMs: 0 })
  server.wait().catch(() => {})
  const headers = await dataPlaneHeaders(sandbox, 8000)
  const ask = () => fetch(`${apiUrl}/page`, { headers }).then(async (answer) => `${answer.status} ${(await answer.text()).trim()}`, (error) => `${error.message}`)
  await until(async () => (await ask()) === '200 here', 'it serves')
  const sums = 'cd /usr && find lib/python3* bin -type f | sort | head -n 400 | xargs sha256sum | sha256sum'
  const sum = await stdout(sandbox, sums)
  const booted = await boot(sandbox)
  let going = true
  const answers = []
  const polling = (async () => { while (going) answers.push(await ask()) })()
  const made = []
  try {
    for (let i = 0; i < 60; ++i) made.push(await here.snapshot(sandbox, { kind: i % 6 === 5 ? 'full' : 'disk' }))
  } finally {
    going = false // or this file would never end
  }
  await polling
  console.log(`# ${answers.length} requests meanwhile`)
  assert.ok(answers.length > 60)
  assert.deepEqual([...new Set(answers)], ['200 here'])
  const still = made.filter((one) => one.quiesced).length
  console.log(`# ${still} of ${made.length} of a guest that held still`) // a machine under load may miss one
  assert.ok(still >= 0.8 * made.length)
  assert.deepEqual([made.filter((one) => one.kind === 'disk').length, made.filter((one) => one.kind === 'full').length], [50, 10])
  assert.equal(await stdout(sandbox, sums), sum)
  assert.equal(await boot(sandbox), booted)
  // The test can see: while it is paused the same question fails.
  await pauseCold(sandbox)
  assert.notEqual(await ask(), '200 here')
}))

test('a guest that writes all the time: each snapshot holds a file system that needs no repair, with files that are whole', () => inFresh(async (sandbox) => {
  // Files appear by rename: in a snapshot each is whole or not there.
  const writer = `i=0; while :; do i=$((i + 1)); head -c 300000 /dev/urandom > /home/user/new; sha256sum < /home/user/new > /home/user/new.sum
    sync /home/user/new /home/user/new.sum; mkdir /home/user/d$i; mv /home/user/new /home/user/d$i/data; mv /home/user/new.sum /home/user/d$i/sum; [ $i -lt 200 ] || exit 0; done`
  const handle = await sandbox.commands.run(writer, { background: true, timeoutMs: 0 })
  handle.wait().catch(() => {})
  await until(async () => Number(await stdout(sandbox, 'ls -d /home/user/d* | wc -l')) > 5, 'it writes')
  const made = []
  for (let i = 0; i < 5; ++i) { made.push(await here.snapshot(sandbox, { kind: 'disk' })); await sleep(300) }
  for (const { number } of [made[0], made.at(-1)])
    await here.withChildren(sandbox, { snapshot: number }, async ([child]) => {
      const bad = await stdout(child, 'for d in /home/user/d*; do [ -f $d/sum ] || continue; [ "$(sha256sum < $d/data)" = "$(cat $d/sum)" ] || echo $d; done')
      assert.equal(bad, '')
      assert.ok(Number(await stdout(child, 'ls -d /home/user/d* | wc -l')) > 4)
      assert.doesNotMatch(await stdout(child, 'dmesg', { user: 'root' }), /recovery complete|orphan cleanup|EXT4-fs error/)
    })
}))

test('of one that rests: paused hot, stopped; a cold one has nothing new to keep', () => inFresh(async (sandbox) => {
  await put(sandbox, 'kept', '/home/user/word')
  await sandbox.pause()
  const hot = await here.snapshot(sandbox, { kind: 'disk' })
  assert.equal(hot.kind, 'disk')
  await pauseAgainCold(sandbox)
  const before = await here.snapshots(sandbox)
  assert.equal((await here.snapshot(sandbox, { kind: 'disk' })).number, before.at(-1).number)
  await here.ask('POST', sandbox, '/stop')
  const stopped = await here.snapshot(sandbox, { kind: 'disk' })
  for (const { number } of [hot, stopped])
    await here.withChildren(sandbox, { snapshot: number }, async ([child]) => assert.equal(await word(child, '/home/user/word'), 'kept'))
}))
async function pauseAgainCold(sandbox) {
  await sandbox.connect({ timeoutMs: 1_800_000 })
  await pauseCold(sandbox)
}

let instance
let there
before(async () => { instance = await Instance.start(); there = new Branches(instance) })
after(() => instance.stop())

const stillWrites = async (sandbox) => { await put(sandbox, 'again', '/home/user/again'); assert.equal(await word(sandbox, '/home/user/again'), 'again') }

for (const fault of ['eio-manifest', 'fail-snapshot-begin', 'fail-snapshot-finish']) {
  test(`${fault}: the disk snapshot fails with its reason, the guest writes on, what was kept stays, nothing half does`, async () => {
    instance.restart('')
    await instance.use(async (sandbox) => {
      await put(sandbox, 'kept', '/home/user/word')
      const good = await there.snapshot(sandbox, { kind: 'disk' })
      instance.restart(`--fault ${fault}`)
      await until(() => sandbox.isRunning().catch(() => false), 'it runs again')
      const kept = (await there.snapshots(sandbox)).map((one) => one.number)
      const own = await quietTable(instance)
      const refused = await there.call('POST', sandbox, '/snapshots', { kind: 'disk' })
      const { message } = await refused.json()
      console.log(`# ${refused.status}: ${message}`)
      assert.ok(refused.status >= 500 && message.length > 10)
      await stillWrites(sandbox)
      assert.deepEqual((await there.snapshots(sandbox)).map((one) => one.number), kept)
      await settled(own, instance)
      instance.restart('')
      await until(() => sandbox.isRunning().catch(() => false), 'it runs again')
      await there.rollback(sandbox, good.number)
      assert.equal(await word(sandbox, '/home/user/word'), 'kept')
    })
  })
}

for (const point of ['disk-frozen', 'disk-copied', 'disk-finish', 'disk-finished']) {
  test(`space-sandboxd dies at ${point}: the machine runs on, its disk is not frozen, nothing half is left`, async () => {
    instance.restart('')
    await instance.use(async (sandbox) => {
      await put(sandbox, 'kept', '/home/user/word')
      instance.restart(`--fault crash-at=${point}`)
      await until(() => sandbox.isRunning().catch(() => false), 'it runs again')
      const own = await quietTable(instance)
      const machine = qemuOf(sandbox.sandboxId, instance.run).pid
      const { pid } = daemon('space-sandboxd', instance.run)
      const going = there.call('POST', sandbox, '/snapshots', { kind: 'disk' }).catch(() => {})
      await until(() => (daemon('space-sandboxd', instance.run)?.pid ?? pid) !== pid, 'it died')
      await going
      await until(() => sandbox.isRunning().catch(() => false), 'it runs on')
      assert.equal(qemuOf(sandbox.sandboxId, instance.run).pid, machine)
      await stillWrites(sandbox)
      await settled(own, instance)
    })
  })
}

test('the virtual machine dies in the middle of disk snapshots: it is recovered, its files are there', async () => {
  instance.restart('')
  await instance.use(async (sandbox) => {
    await put(sandbox, 'kept', '/home/user/word')
    for (const [i, delay] of [3, 15].entries()) {
      const going = there.call('POST', sandbox, '/snapshots', { kind: 'disk' }).then((answer) => answer.status, () => 'broken')
      await sleep(delay)
      await there.crash(sandbox)
      console.log(`# after ${delay} ms: ${await going}`)
      await there.recovered(sandbox, i + 1)
      assert.equal(await word(sandbox, '/home/user/word'), 'kept')
    }
  })
})

test('a full pool: no snapshot of the disk is half made; the sandbox is as it was, and with room it works', async () => {
  const small = await Instance.start({ flags: ['--pool-mib', '1536'] })
  const full = new Branches(small)
  try {
    const [filler, subject] = await Promise.all([small.create(), small.create()])
    await put(subject, 'kept')
    await filler.commands.run('dd if=/dev/urandom of=/filler bs=1M count=3000 conv=fsync 2>/dev/null', { user: 'root', background: true, timeoutMs: 0 })
    const made = []
    let refused
    await until(async () => {
      const answer = await full.call('POST', subject, '/snapshots', { kind: 'disk' })
      if (answer.ok) made.push((await answer.json()).number)
      else refused = { status: answer.status, ...(await answer.json()) }
      return refused !== undefined || made.length > 450
    }, 'the pool is full', 240_000)
    console.log(`# after ${made.length}: ${refused?.status} ${refused?.message}`)
    assert.ok(refused !== undefined, 'a full pool refuses')
    assert.match(refused.message, /pool|room|space/i)
    const listed = (await full.snapshots(subject)).map((one) => String(one.number)).sort()
    assert.deepEqual(fs.readdirSync(`${small.state}/pool/snapshots/${subject.sandboxId}`).sort(), listed)
    assert.equal(await word(subject), 'kept')
    await small.kill(filler)
    await until(async () => (await full.call('POST', subject, '/snapshots', { kind: 'disk' })).ok, 'one is made again', 120_000)
    assert.equal(await word(subject), 'kept')
  } finally {
    small.stop()
  }
})
