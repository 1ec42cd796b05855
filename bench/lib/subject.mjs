// A sandbox whose standing still is seen from outside: the clocks of a guest stand still with it.
import { spawn } from 'node:child_process'
import readline from 'node:readline'
import { compile, life, Sandbox, until, upload } from './platform.mjs'
import { Stopwatch } from './report.mjs'
import { qemuOf } from '../../tests/system/machine.mjs'

// A program in the guest that beats, dirties memory when asked and writes into a file, and the watcher of its heart.
export class Subject {
  static async start(megabytes, rate) {
    const subject = new Subject()
    subject.sandbox = await Sandbox.create(life)
    const program = await upload(subject.sandbox, 'beat')
    subject.handle = await subject.sandbox.commands.run(`exec ${program} ${megabytes} ${rate}`, { background: true, stdin: true, timeoutMs: 0 })
    subject.handle.wait().catch(() => {})
    await until(() => subject.handle.stdout.includes('\n'), 'the program beats')
    const magic = subject.handle.stdout.split('\n')[0]
    subject.watcher = spawn(compile('gap_watch'), [String(qemuOf(subject.sandbox.sandboxId).pid), magic], { stdio: ['pipe', 'pipe', 'inherit'] })
    subject.lines = readline.createInterface({ input: subject.watcher.stdout })[Symbol.asyncIterator]()
    if ((await subject.lines.next()).value !== 'watching') throw new Error('the heart of the program was not found')
    return subject
  }
  async dirty() {
    const before = this.handle.stdout.length
    await this.sandbox.commands.sendStdin(this.handle.pid, 'x\n')
    await until(() => this.handle.stdout.length > before, 'the memory is dirty')
  }
  // The longest time without a beat since the last question.
  async gap() {
    this.watcher.stdin.write('\n')
    return Number((await this.lines.next()).value)
  }
  // What its writer hands to the kernel from now on: `rate()`, MB/s.
  async writing() {
    const total = async () => Number((await this.sandbox.commands.run("awk '/^wchar/ { print $2 }' /proc/$(pgrep -n beat)/io")).stdout)
    const [from, watch] = [await total(), new Stopwatch()]
    return { rate: async () => Math.round((await total() - from) / watch.ms() / 100) / 10 }
  }
  async close() {
    this.watcher.stdin.end()
    await this.sandbox.kill()
  }
}
