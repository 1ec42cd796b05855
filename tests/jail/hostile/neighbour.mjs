// A sandbox beside a hostile one: it works on and on, and what it noticed is told; and what the host's daemons hold.
import assert from 'node:assert/strict'
import { sleep } from '../../e2b/sdk.mjs'
import { residentMib } from '../../system/machine.mjs'

export class Neighbour {
  constructor(sandbox) { this.sandbox = sandbox }

  // While `use` runs: commands one after another. A command that fails fails the test; how long they took is printed only.
  async during(what, use) {
    const times = []
    let over = false
    const working = (async () => {
      while (!over) {
        const begin = performance.now()
        const result = await this.sandbox.commands.run('echo $((6 * 7))', { timeoutMs: 60_000, requestTimeoutMs: 60_000 })
        assert.equal(result.stdout, '42\n')
        times.push(performance.now() - begin)
        await sleep(20)
      }
    })()
    working.catch(() => {}) // told below
    try {
      return await use()
    } finally {
      over = true
      await working
      times.sort((a, b) => a - b)
      const at = (share) => times[Math.min(times.length - 1, Math.floor(times.length * share))].toFixed(1)
      assert.ok(times.length > 0, 'the neighbour ran no command')
      console.log(`# ${what}: neighbour n=${times.length} p50=${at(0.5)} p99=${at(0.99)} max=${at(1)} ms`)
    }
  }
}

// The most each daemon held while `use` ran, beyond what it held at first: within `boundMib`.
export async function memoryBounded(what, boundMib, use) {
  const before = residentMib()
  const peak = { ...before }
  const look = () => { for (const [name, mib] of Object.entries(residentMib())) peak[name] = Math.max(peak[name], mib) }
  const timer = setInterval(look, 50).unref()
  try {
    return await use()
  } finally {
    clearInterval(timer)
    look()
    console.log(`# ${what}: MiB ${Object.keys(before).map((name) => `${name} ${before[name]} -> ${peak[name]}`).join(', ')}`)
    for (const name of Object.keys(before)) assert.ok(peak[name] <= before[name] + boundMib, `${name} grew from ${before[name]} to ${peak[name]} MiB`)
  }
}
