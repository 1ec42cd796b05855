// kill -9 of a daemon at random moments of every operation: no sandbox is lost, nothing half is resumed, nothing is left. The moments come from
// a seed, which is printed (SPACE_SEED repeats it). SPACE_LONG: ten times as many.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { test } from 'node:test'
import { api, Sandbox, sleep, until } from '../e2b/sdk.mjs'
import { daemon, leakTable, printTables, quietTable } from '../system/machine.mjs'
import { checkpoint, fileOf, life, long, policy, resume, snapshots, stdout, whenCold } from './sandboxes.mjs'

const seed = Number(process.env.SPACE_SEED ?? Date.now() % 1_000_000)
const kills = long ? 150 : 15
const operations = ['create', 'checkpoint', 'pause hot', 'pause cold', 'resume hot', 'resume cold']
const atOnce = 4 // operations under way at each kill: 60 samples in 15 kills

// A small generator, so that a seed is a run.
let randomState = seed
const random = (below) => {
  randomState = (Math.imul(randomState, 1103515245) + 12345) & 0x7fffffff
  return (randomState >>> 8) % below
}

class Subject {
  static async make(operation) {
    const subject = new Subject()
    Object.assign(subject, { operation, mark: `crash-${process.pid}-${Subject.count = (Subject.count ?? 0) + 1}` })
    if (operation === 'create') return subject
    subject.sandbox = await Sandbox.create(life)
    await stdout(subject.sandbox, `echo ${subject.mark} > /dev/shm/mark; echo ${subject.mark} > /home/user/mark; sync`)
    await policy(subject.sandbox, { hotKeepSeconds: operation.endsWith('cold') ? 0 : 600 })
    if (operation.startsWith('resume')) {
      await subject.sandbox.pause()
      if (operation === 'resume cold') await whenCold(subject.sandbox)
    }
    return subject
  }

  // Goes on when the operation does; answers how it went.
  run() {
    const calls = {
      'create': async () => { this.sandbox = await Sandbox.create({ ...life, metadata: { mark: this.mark } }) },
      'checkpoint': () => checkpoint(this.sandbox),
      'pause hot': () => this.sandbox.pause(),
      'pause cold': async () => { await this.sandbox.pause(); await whenCold(this.sandbox) },
      'resume hot': () => resume(this.sandbox),
      'resume cold': () => resume(this.sandbox),
    }
    return calls[this.operation]().then(() => 'done', (error) => `${error.constructor.name}: ${error.message}`.slice(0, 110))
  }

  // A sandbox that was there is there, with all it held; one whose create failed is not there, or works.
  async check() {
    if (!this.sandbox) {
      const found = await (await api('GET', `/v2/sandboxes?metadata=${encodeURIComponent(encodeURIComponent(`mark=${this.mark}`))}`)).json()
      if (found.length === 0) return 'not made'
      this.sandbox = await Sandbox.connect(found[0].sandboxID, { timeoutMs: life.timeoutMs })
      assert.equal(await stdout(this.sandbox, 'echo works'), 'works\n')
      return 'made after all'
    }
    let error
    await until(async () => {
      try {
        await resume(this.sandbox)
        return true
      } catch (thrown) {
        error = thrown
        if (/not found/.test(thrown.message)) throw new Error(`lost: ${thrown.message}`)
        return false
      }
    }, 'it is reached again').catch((late) => { throw new Error(`${this.operation} ${this.sandbox.sandboxId}: ${late.message}; last answer: ${error?.message}`) })
    if (this.operation === 'create') assert.equal(await stdout(this.sandbox, 'echo works'), 'works\n')
    else assert.equal(await stdout(this.sandbox, 'cat /dev/shm/mark /home/user/mark'), `${this.mark}\n${this.mark}\n`)
    // What is listed is whole: its files are there, and its manifest is its own.
    for (const { number } of await snapshots(this.sandbox)) {
      const manifest = JSON.parse(fs.readFileSync(fileOf(this.sandbox, number, 'manifest.json'), 'utf8'))
      assert.deepEqual([manifest.sandbox, manifest.number], [this.sandbox.sandboxId, number])
      assert.ok(fs.statSync(fileOf(this.sandbox, number, 'vmstate')).size > 1000)
    }
    return 'kept'
  }
}

async function round(table) {
  const victim = ['space-sandboxd', 'space-sandboxd', 'space-noded', 'space-control'][random(4)]
  const subjects = await Promise.all(Array.from({ length: atOnce }, () => Subject.make(operations[random(operations.length)])))
  const delay = random(400)
  const old = daemon(victim).pid
  const outcomes = subjects.map((subject) => subject.run())
  await sleep(delay)
  process.kill(old, 'SIGKILL')
  await until(() => (daemon(victim)?.pid ?? old) !== old, `${victim} is started again`)
  await until(async () => (await (await api('GET', '/v1/node')).json().catch(() => ({}))).connected === true, 'the node is connected')
  for (const [i, outcome] of outcomes.entries()) {
    const went = await Promise.race([outcome, sleep(90_000).then(() => 'no answer in 90 s')])
    const after = await subjects[i].check()
    table.push({ victim, operation: subjects[i].operation })
    console.log(`# ${victim.padEnd(15)} ${String(delay).padStart(4)} ms into ${subjects[i].operation.padEnd(12)} ${after.padEnd(14)} ${went}`)
    assert.notEqual(went, 'no answer in 90 s')
  }
  await Promise.all(subjects.map((subject) => subject.sandbox && Sandbox.kill(subject.sandbox.sandboxId)))
}

test(`kill -9 of a daemon in the middle of ${kills * atOnce} operations, seed ${seed}`, async () => {
  const before = await quietTable()
  const table = []
  for (let i = 0; i < kills; ++i) await round(table)
  assert.ok(new Set(table.map((row) => row.operation)).size >= 5, 'the sample has most of the operations')
  // Descriptors of daemons that were killed are those of new ones; what counts is the sandboxes' own.
  const own = ({ vmProcesses, vmUids, subvolumes, snapshots: kept, cgroups, netns, taps, vmFolders, zombies }) => ({ vmProcesses, vmUids, subvolumes, kept, cgroups, netns, taps, vmFolders, zombies })
  await until(() => JSON.stringify(own(leakTable())) === JSON.stringify(own(before)), 'nothing is left', 60_000).catch(() => {})
  printTables(before, leakTable())
  assert.deepEqual(own(leakTable()), own(before))
})

test('kill -9 of everything while sandboxes rest and run: all are there again', async () => {
  const before = await quietTable()
  const subjects = await Promise.all(['resume hot', 'resume cold', 'checkpoint', 'pause hot'].map((operation) => Subject.make(operation)))
  for (const name of ['space-sandboxd', 'space-noded', 'space-control']) process.kill(daemon(name).pid, 'SIGKILL')
  await until(async () => (await (await api('GET', '/v1/node').catch(() => undefined))?.json().catch(() => ({})))?.connected === true, 'the node is connected')
  for (const subject of subjects) assert.equal(await subject.check(), 'kept')
  await Promise.all(subjects.map((subject) => Sandbox.kill(subject.sandbox.sandboxId)))
  const { nodedFds, sandboxdFds, controlFds, ...wanted } = before
  await until(() => { const { nodedFds: a, sandboxdFds: b, controlFds: c, ...now } = leakTable(); return JSON.stringify(now) === JSON.stringify(wanted) }, 'nothing is left', 60_000).catch(() => assert.deepEqual(leakTable(), before))
})
