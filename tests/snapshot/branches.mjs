// Forks, snapshots of both kinds, rollbacks and what is told of them, through the public API: of the suite's own instance, or of another.
import assert from 'node:assert/strict'
import { api, Sandbox, until } from '../e2b/sdk.mjs'
import { qemuOf } from '../system/machine.mjs'
import { life, ok, stdout, upload } from './sandboxes.mjs'

// Where a test happens: the suite's instance, or one of its own (instance.mjs).
const suite = { call: api, options: () => ({}) }
const route = (sandbox) => `/v1/sandboxes/${sandbox.sandboxId}`

export class Branches {
  constructor(place = suite) { this.place = place }
  call(method, sandbox, path, body) { return this.place.call(method, `${route(sandbox)}${path}`, body) }
  async ask(...args) { return ok(await this.call(...args)) }

  connect(id) { return Sandbox.connect(id, { ...this.place.options(), ...life }) }
  kill(sandbox) { return Sandbox.kill(sandbox.sandboxId, this.place.options()) }
  snapshot(sandbox, wish = {}) { return this.ask('POST', sandbox, '/snapshots', wish) }
  async snapshots(sandbox) { return (await this.ask('GET', sandbox, '/snapshots')).snapshots }
  history(sandbox) { return this.ask('GET', sandbox, '/history') }
  detail(sandbox) { return this.ask('GET', sandbox, '') }
  rollback(sandbox, number) { return this.ask('POST', sandbox, '/rollback', { snapshot: number }) }
  undo(sandbox) { return this.ask('POST', sandbox, '/rollback', { undo: true }) }
  recovery(sandbox, policy) { return policy ? this.ask('PUT', sandbox, '/recovery', { policy }) : this.ask('GET', sandbox, '/recovery') }

  // Each entry a sandbox or an error, as told.
  fork(sandbox, wish = {}) { return this.ask('POST', sandbox, '/fork', { timeout: 1800, ...wish }) }
  // All of them, as the SDK's objects.
  async children(sandbox, wish) {
    const entries = await this.fork(sandbox, wish)
    const failed = entries.filter((entry) => entry.error)
    const children = await Promise.all(entries.filter((entry) => entry.sandbox).map((entry) => this.connect(entry.sandbox.sandboxID)))
    if (failed.length > 0) await Promise.all(children.map((child) => this.kill(child)))
    assert.deepEqual(failed, [])
    return children
  }
  async withChildren(sandbox, wish, use) {
    const children = await this.children(sandbox, wish)
    try {
      return await use(children)
    } finally {
      await Promise.all(children.map((child) => this.kill(child)))
    }
  }

  // The sandbox's virtual machine ends as if it had crashed; answered once it is another one or none.
  async crash(sandbox) {
    const { pid } = qemuOf(sandbox.sandboxId, this.place.run)
    process.kill(pid, 'SIGKILL')
    await until(() => qemuOf(sandbox.sandboxId, this.place.run)?.pid !== pid, 'its machine is gone')
  }
  // Recovered for at least the `count`th time, and what was told of it.
  async recovered(sandbox, count = 1) {
    let told
    await until(async () => {
      told = await this.detail(sandbox)
      return (told.recovered?.count ?? 0) >= count && told.state === 'running' && told.stateDetail === 'running'
    }, `its recovery ${count}`, 120_000).catch((error) => { throw new Error(`${error.message}: ${JSON.stringify(told)}`) })
    return told.recovered
  }
}

export const put = (sandbox, word, path = '/dev/shm/word') => stdout(sandbox, `echo ${word} > ${path}; sync`)
export const word = async (sandbox, path = '/dev/shm/word') => (await stdout(sandbox, `cat ${path} 2>/dev/null || echo none`)).trim()
export const boot = (sandbox) => stdout(sandbox, 'cat /proc/sys/kernel/random/boot_id')

// A program that counts in memory and, at each step, in a file: it sees by itself when the two are not of one instant.
export class Counter {
  static async start(sandbox) {
    const program = await upload(sandbox, 'counter', '/home/user/counter')
    const handle = await sandbox.commands.run(`exec ${program} run /home/user/count /dev/shm/status`, { background: true, timeoutMs: 0 })
    handle.wait().catch(() => {})
    await until(async () => (await Counter.of(sandbox)).ram > 3, 'it counts')
    return handle.pid
  }
  static async of(sandbox) {
    const text = await stdout(sandbox, '/home/user/counter show /dev/shm/status 2>/dev/null || echo "{}"')
    return { ram: 0, ...JSON.parse(text) }
  }
  // It runs, and no step found memory and file apart.
  static async goesOn(sandbox) {
    const first = await Counter.of(sandbox)
    let now
    await until(async () => (now = await Counter.of(sandbox)).steps > first.steps + 3, 'it goes on')
    assert.equal(now.mismatches, 0, `memory and file are of two instants, ${now.worst} steps apart`)
    return first
  }
}
