// A second SPACE beside the suite's own, for faults of the host: own folders, port and operator, and on request a mount
// namespace of its own, in which files of the host can be covered without the host noticing.
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import net from 'node:net'
import { Sandbox } from '../e2b/sdk.mjs'
import { daemon } from './machine.mjs'

const program = `${process.env.SPACE_BUILD}/space`

async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address()
  await new Promise((resolve) => server.close(resolve))
  return port
}

export class Instance {
  static async start({ flags = [], ownMounts = false } = {}) {
    const instance = new Instance()
    instance.root = fs.mkdtempSync('/tmp/space-fault-')
    fs.chmodSync(instance.root, 0o755)
    fs.mkdirSync(`${instance.root}/home`)
    instance.state = `${instance.root}/state`
    instance.run = `${instance.root}/run`
    instance.url = `http://127.0.0.1:${await freePort()}`
    const up = [program, 'up', '-d', ...instance.folders(), '--listen', new URL(instance.url).host,
      ...(flags.includes('--warm-pool') ? [] : ['--warm-pool', '0']), ...flags]
    instance.execute(ownMounts ? ['unshare', '-m', '--propagation', 'private', ...up] : up)
    instance.pid = daemon('space-noded', instance.run).pid
    instance.space('template', 'build', 'base', ...instance.folders())
    instance.key = JSON.parse(fs.readFileSync(`${instance.root}/home/.config/space/config.json`, 'utf8')).api_key
    return instance
  }

  folders() { return ['--state', this.state, '--run', this.run] }
  execute([command, ...args]) {
    const { E2B_API_URL, E2B_API_KEY, SPACE_API_URL, SPACE_API_KEY, ...env } = process.env
    return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], env: { ...env, HOME: `${this.root}/home` } })
  }
  space(...args) { return this.execute([program, ...args]) }
  // As root, with the instance's view of the file system.
  inside(command) { return this.execute(['nsenter', '-t', String(this.pid), '-m', 'sh', '-ec', command]) }

  options() { return { apiUrl: this.url, sandboxUrl: this.url, apiKey: this.key, timeoutMs: 600_000 } }
  create() { return Sandbox.create(this.options()) }
  // What the API says of a create: status and error body.
  async tryCreate() {
    const answer = await fetch(`${this.url}/v2/sandboxes`, {
      method: 'POST', headers: { 'X-API-Key': this.key, 'Content-Type': 'application/json' }, body: '{"templateID":"base"}' })
    return { status: answer.status, ...(await answer.json()) }
  }
  async kill(sandbox) {
    const answer = await fetch(`${this.url}/sandboxes/${sandbox.sandboxId}`, { method: 'DELETE', headers: { 'X-API-Key': this.key } })
    return { status: answer.status, message: answer.status === 204 ? '' : (await answer.json()).message }
  }

  stop() {
    this.execute(['nsenter', '-t', String(this.pid), '-m', program, 'down', '--all', ...this.folders()])
    fs.rmSync(this.root, { recursive: true })
  }
}
