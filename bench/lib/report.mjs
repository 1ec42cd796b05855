// What the benchmarks written for Node print: the same JSON lines as bench/report.h.
import os from 'node:os'

export class Samples {
  values = []
  add(value) { this.values.push(value) }
  get n() { return this.values.length }
  percentile(percent) { // nearest rank; 0: the smallest
    if (!this.n) return 0
    const sorted = [...this.values].sort((a, b) => a - b)
    return sorted[Math.min(Math.max(Math.ceil((percent / 100) * this.n), 1), this.n) - 1]
  }
}

const rounded = (value) => Math.round(value * 1000) / 1000

// A figure next to the peer of the same run; `ratio` is that of the medians. `goal`: what p50 should not exceed,
// `ratioGoal`: what the ratio should not.
export function print(bench, metric, samples, { unit = 'ms', peer, peerSamples, goal, p90Goal, ratioGoal, ...more } = {}) {
  const line = { bench, metric, unit, n: samples.n, min: rounded(samples.percentile(0)) }
  for (const percent of [50, 90, 99]) line[`p${percent}`] = rounded(samples.percentile(percent))
  if (peerSamples?.n) {
    const floor = peerSamples.percentile(50)
    Object.assign(line, { peer, peer_p50: rounded(floor), ratio: floor > 0 ? rounded(samples.percentile(50) / floor) : 0 })
  }
  if (ratioGoal !== undefined) line.ratio_goal = ratioGoal
  if (goal !== undefined) line.goal = goal
  if (p90Goal !== undefined) line.p90_goal = p90Goal
  say({ ...line, load1: rounded(os.loadavg()[0]), ...more })
}

export const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`)

export function printMachine(bench) {
  const [load1, load5] = os.loadavg()
  say({ bench, metric: 'machine', processors: os.cpus().length, load1: rounded(load1), load5: rounded(load5), kernel: os.release() })
}

export class Stopwatch {
  #start = process.hrtime.bigint()
  ms() { return Number(process.hrtime.bigint() - this.#start) / 1e6 }
}

// Runs `use` and adds how long it took; answers what it answered.
export async function timed(samples, use) {
  const watch = new Stopwatch()
  const result = await use()
  samples.add(watch.ms())
  return result
}
