// A second SPACE with a fault of its node switched on, made the way tests/system/instance.mjs makes one.
import { Sandbox } from '../e2b/sdk.mjs'
import { Instance as Plain } from '../system/instance.mjs'
import { daemon } from '../system/machine.mjs'
import { life, ok } from './sandboxes.mjs'

export class Instance extends Plain {
  // `options`: words for space-sandboxd, as SPACE_SANDBOXD_OPTIONS takes them.
  static async start({ options = '', flags = [], pool = 0 } = {}) {
    process.env.SPACE_SANDBOXD_OPTIONS = options
    try {
      const instance = Object.setPrototypeOf(await Plain.start({ flags: ['--warm-pool', String(pool), ...flags] }), Instance.prototype)
      await instance.ready()
      return instance
    } finally {
      delete process.env.SPACE_SANDBOXD_OPTIONS
    }
  }

  call(method, path, body) {
    return fetch(this.url + path, { method, headers: { 'X-API-Key': this.key, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
      body: body === undefined ? undefined : JSON.stringify(body) })
  }
  async pools() { return (await ok(await this.call('GET', '/v1/pools'))).pools }
  // The template's checkpoint is made in the background, and may not be made at all under a fault.
  async ready() {
    for (let i = 0; i < 60; ++i) {
      if ((await this.pools()).some((pool) => pool.checkpoint)) return
      await new Promise((resolve) => setTimeout(resolve, 250))
    }
  }
  async use(what, more = {}) {
    const sandbox = await Sandbox.create({ ...this.options(), ...life, ...more })
    try {
      return await what(sandbox)
    } finally {
      await Sandbox.kill(sandbox.sandboxId, this.options())
    }
  }
  async checkpoint(sandbox) { return ok(await this.call('POST', `/v1/sandboxes/${sandbox.sandboxId}/snapshots`)) }
  async snapshots(sandbox) { return (await ok(await this.call('GET', `/v1/sandboxes/${sandbox.sandboxId}/snapshots`))).snapshots }

  // The daemons end and come back; with other words for space-sandboxd.
  restart(options, flags = []) {
    this.space('down', ...this.folders())
    this.up(options, flags)
  }
  up(options = '', flags = []) {
    process.env.SPACE_SANDBOXD_OPTIONS = options
    try {
      this.space('up', '-d', ...this.folders(), '--listen', new URL(this.url).host, '--warm-pool', '0', ...flags)
    } finally {
      delete process.env.SPACE_SANDBOXD_OPTIONS
    }
    this.pid = daemon('space-noded', this.run).pid
  }
}
