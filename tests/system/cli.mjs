// The command line for tests: run to its end, in the background, or on a terminal.
import { spawn, spawnSync } from 'node:child_process'
import { until } from '../e2b/sdk.mjs'

export const program = `${process.env.SPACE_BUILD}/space`

export const space = (args, options = {}) => spawnSync(program, args, { encoding: 'utf8', ...options })

// Its output, or an error that shows what it said.
export function output(...args) {
  const result = space(args)
  if (result.status !== 0) throw new Error(`space ${args.join(' ')}: ${result.status}\n${result.stdout}${result.stderr}`)
  return result.stdout
}

class Running {
  constructor(command, args, env) {
    this.child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, ...env } })
    this.text = ''
    this.child.stdout.on('data', (data) => (this.text += data))
    this.child.stderr.on('data', (data) => (this.text += data))
    this.child.stdin.on('error', () => {})
    this.ended = new Promise((resolve) => this.child.on('exit', (code, signal) => resolve(code ?? signal)))
  }
  async shows(what) {
    const there = () => (what instanceof RegExp ? what.test(this.text) : this.text.includes(what))
    await until(there, `${what} in:\n${this.text}`).catch((error) => { throw new Error(`${error.message}\nshown: ${this.text}`) })
  }
  stop(signal = 'SIGTERM') { this.child.kill(signal); return this.ended }
}

export const start = (args, env) => new Running(program, args, env)

class Terminal extends Running {
  constructor(args, env) { super('python3', [new URL('on_terminal.py', import.meta.url).pathname, program, ...args], env) }
  #order(order) { this.child.stdin.write(`${JSON.stringify(order)}\n`) }
  type(text) { this.#order({ type: text }) }
  size(columns, rows) { this.#order({ size: [columns, rows] }) }
}
export const terminal = (args, env) => new Terminal(args, env)
