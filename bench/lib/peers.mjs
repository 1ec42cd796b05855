// Peers measured in the same run: a bare QEMU, libvirt, runc and gVisor. Each is made once, asked round by round, and ended.
// What cannot run on this machine is printed with the reason, never left out.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import readline from 'node:readline'
import { say, Samples, Stopwatch } from './report.mjs'

// Debian packages a peer needs; never those of QEMU, which SPACE has from elsewhere. No daemon is started by them.
function install(...names) {
  const missing = names.filter((name) => spawnSync('dpkg-query', ['-W', '-f', '${db:Status-Status}', name], { encoding: 'utf8' }).stdout !== 'installed')
  if (!missing.length) return
  const result = spawnSync('apt-get', ['install', '-y', '-q', '--no-install-recommends', '-o', 'DPkg::Lock::Timeout=300', ...missing],
    { env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }, encoding: 'utf8', timeout: 300_000 })
  if (result.status !== 0) throw new Error(`apt-get install ${missing.join(' ')}: ${result.stderr.trim().split('\n').at(-1)}`)
}

function run(command, args, options = {}) {
  const result = spawnSync(command, args, { encoding: 'utf8', timeout: 60_000, stdio: ['ignore', 'pipe', 'pipe'], ...options })
  if (result.status !== 0) throw new Error(`${command} ${args.at(0)}: ${(result.stderr || result.error?.message || `status ${result.status}`).trim().split('\n').at(-1)}`)
  return result.stdout
}

// A child that is asked one line at a time.
class Asked {
  constructor(command, args, options) {
    this.child = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'], ...options })
    this.child.stdin.on('error', () => {})
    this.ended = new Promise((resolve) => this.child.once('exit', resolve))
    this.lines = readline.createInterface({ input: this.child.stdout })[Symbol.asyncIterator]()
  }
  async line() {
    let timer
    const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error('the peer does not answer')), 120_000) })
    const { value, done } = await Promise.race([this.lines.next(), late]).finally(() => clearTimeout(timer))
    if (done) throw new Error('the peer ended')
    return value
  }
  tell(text) { this.child.stdin.write(`${text}\n`) }
  async end(word) {
    this.tell(word)
    this.child.stdin.end()
    const timer = setTimeout(() => this.child.kill('SIGKILL'), 30_000)
    await this.ended
    clearTimeout(timer)
  }
}

// Of the sandbox whose QEMU is `pid`: the same machine line. `snapshot`: a folder with disk.raw, mem.raw and vmstate, else it saves itself.
export class BareQemu {
  static async start(pid, image, snapshot) {
    const peer = new BareQemu()
    peer.asked = new Asked('python3', [new URL('bare_qemu.py', import.meta.url).pathname, String(pid), image, ...(snapshot ? [snapshot] : [])])
    JSON.parse(await peer.asked.line())
    return peer
  }
  async ask(word) {
    this.asked.tell(word)
    const answer = JSON.parse(await this.asked.line())
    if (answer.error) throw new Error(answer.error)
    return answer
  }
  boot = async () => (await this.ask('boot')).ms
  restore = async () => (await this.ask('restore')).ms
  // And /bin/true in it, with the access token the snapshot's daemon knows.
  firstCommand = async (token) => (await this.ask(`restore ${token}`)).ms
  close = () => this.asked.end('quit')
}

// libvirt's QEMU driver inside virsh, with folders of its own: no daemon. The same machine, kernel and initramfs; memory is
// libvirt's own, which it saves and loads as a stream. `managedsave` and `start` are what its users call.
export class Libvirt {
  static async start(pid, image) {
    install('libvirt-daemon', 'libvirt-daemon-driver-qemu', 'libvirt-clients')
    if (spawnSync('id', ['libvirt-qemu']).status !== 0) // which libvirt-daemon-system would make; its driver wants it to exist
      run('useradd', ['--system', '--user-group', '--no-create-home', '--home-dir', '/nonexistent', '--shell', '/usr/sbin/nologin', 'libvirt-qemu'])
    const peer = new Libvirt()
    peer.root = fs.mkdtempSync(`${os.tmpdir()}/space-libvirt.`)
    fs.mkdirSync(`${peer.root}/etc`)
    fs.writeFileSync(`${peer.root}/etc/qemu.conf`, ['user = "root"', 'group = "root"', 'security_driver = "none"', 'dynamic_ownership = 0',
      'remember_owner = 0', 'namespaces = []', 'cgroup_controllers = []', 'stdio_handler = "file"', 'seccomp_sandbox = 0', ''].join('\n'))
    for (const name of ['disk.raw', 'vmlinuz', 'initramfs.img']) run('cp', ['--sparse=always', `${image}/${name}`, `${peer.root}/${name}`])
    fs.writeFileSync(`${peer.root}/domain.xml`, peer.#domain(fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')))
    peer.asked = new Asked('sh', ['-c', `exec virsh -c 'qemu:///embed?root=${peer.root}' 2>&1`])
    try {
      await peer.#call(`define ${peer.root}/domain.xml`)
      await peer.#call('start bench', 10_000)
    } catch (error) {
      await peer.close()
      throw error
    }
    return peer
  }

  #domain(like) {
    const option = (name) => like[like.indexOf(name) + 1]
    const arg = (...words) => words.map((word) => `<qemu:arg value='${word}'/>`).join('')
    const kvm = like.some((word) => word.startsWith('kvm'))
    return `<domain type='${kvm ? 'kvm' : 'qemu'}' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
      <name>bench</name><memory unit='MiB'>${parseInt(option('-m'))}</memory><vcpu>${parseInt(option('-smp'))}</vcpu>
      <os><type arch='x86_64' machine='microvm'>hvm</type><kernel>${this.root}/vmlinuz</kernel><initrd>${this.root}/initramfs.img</initrd>
      <cmdline>${option('-append')}</cmdline></os><features><acpi/></features><on_reboot>destroy</on_reboot>
      <devices><emulator>/usr/bin/qemu-system-x86_64</emulator><controller type='usb' model='none'/><memballoon model='none'/></devices>
      <qemu:commandline>${arg('-global', 'virtio-mmio.force-legacy=false',
        '-blockdev', `driver=file,node-name=f,filename=${this.root}/disk.raw,aio=threads`, '-blockdev', 'driver=raw,node-name=d,file=f',
        '-device', 'virtio-blk-device,drive=d', '-device', 'virtio-rng-device')}</qemu:commandline></domain>`
  }

  // One command and its end: an echo that comes back after it.
  async #call(command, settleMs = 0) {
    const mark = `done-${process.hrtime.bigint()}`
    const watch = new Stopwatch()
    this.asked.tell(command)
    this.asked.tell(`echo ${mark}`)
    let text = ''
    for (let line = ''; line !== mark; text += line) line = await this.asked.line()
    const ms = watch.ms()
    if (/error:/.test(text)) throw new Error(text)
    if (settleMs) await new Promise((resolve) => setTimeout(resolve, settleMs))
    return ms
  }
  save = () => this.#call('managedsave bench')
  restore = () => this.#call('start bench')
  async close() {
    this.asked.tell('destroy bench')
    this.asked.tell('undefine bench --managed-save')
    await this.asked.end('quit')
    fs.rmSync(this.root, { recursive: true })
  }
}

// The template's files as a container's root, read only.
class Container {
  constructor(image) {
    this.folder = fs.mkdtempSync(`${os.tmpdir()}/space-container.`)
    this.root = `${this.folder}/root`
    fs.mkdirSync(this.root)
    run('mount', ['-o', 'loop,ro,noload', `${image}/disk.raw`, this.root])
    this.count = 0
  }
  bundle(name, args) {
    const folder = `${this.folder}/${name}`
    fs.mkdirSync(folder)
    fs.writeFileSync(`${folder}/config.json`, JSON.stringify({
      ociVersion: '1.0.2', root: { path: this.root, readonly: true }, hostname: 'bench',
      process: { terminal: false, user: { uid: 0, gid: 0 }, args, env: ['PATH=/usr/bin:/bin'], cwd: '/' },
      mounts: [{ destination: '/proc', type: 'proc', source: 'proc' }, { destination: '/dev', type: 'tmpfs', source: 'tmpfs' }],
      linux: { namespaces: ['pid', 'network', 'ipc', 'uts', 'mount'].map((type) => ({ type })) } }))
    return folder
  }
  name() { return `bench-${process.pid}-${++this.count}` }
  close() {
    run('umount', [this.root])
    fs.rmSync(this.folder, { recursive: true })
  }
}

export class Runc extends Container {
  static start(image) {
    install('runc')
    const peer = new Runc(image)
    peer.truth = peer.bundle('true', ['/bin/true'])
    peer.createToFirstCommand()
    return peer
  }
  // A container made, /bin/true run in it, the container removed.
  createToFirstCommand() {
    const watch = new Stopwatch()
    run('runc', ['--root', `${this.folder}/state`, 'run', '--bundle', this.truth, this.name()])
    return watch.ms()
  }
}

export class Runsc extends Container {
  static start(image) {
    install('runsc')
    const peer = new Runsc(image)
    peer.sleeper = peer.bundle('sleep', ['/bin/sleep', '100000'])
    try {
      peer.#save()
    } catch (error) {
      peer.close()
      throw error
    }
    return peer
  }
  // Debian's version; ptrace is the platform that works without KVM. `restore` hands its own streams on to the container.
  #runsc(...args) {
    run('runsc', ['--root', `${this.folder}/state`, '--platform=ptrace', '--network=none', '--ignore-cgroups', ...args], { stdio: 'ignore' })
  }
  #save() {
    const id = this.name()
    this.#runsc('create', '--bundle', this.sleeper, id)
    this.#runsc('start', id)
    fs.mkdirSync(`${this.folder}/image`)
    this.#runsc('checkpoint', `--image-path=${this.folder}/image`, id)
    this.#runsc('delete', '--force', id)
  }
  // Of a container that runs, which ends with it.
  checkpoint() {
    const id = this.name()
    this.#runsc('create', '--bundle', this.sleeper, id)
    this.#runsc('start', id)
    fs.mkdirSync(`${this.folder}/${id}`)
    const watch = new Stopwatch()
    this.#runsc('checkpoint', `--image-path=${this.folder}/${id}`, id)
    const ms = watch.ms()
    this.#runsc('delete', '--force', id)
    fs.rmSync(`${this.folder}/${id}`, { recursive: true })
    return ms
  }
  // Until the container answered a first command.
  restore() {
    const id = this.name()
    const watch = new Stopwatch()
    this.#runsc('restore', '--detach', `--image-path=${this.folder}/image`, '--bundle', this.sleeper, id)
    this.#runsc('exec', id, '/bin/true')
    const ms = watch.ms()
    this.#runsc('delete', '--force', id)
    return ms
  }
}

// Peers of one benchmark: {name: how to start it}. Those that do not start are printed.
export class Peers {
  static async start(bench, makers) {
    const peers = new Peers()
    peers.bench = bench
    peers.there = {}
    peers.samples = {}
    for (const [name, make] of Object.entries(makers)) {
      try {
        peers.there[name] = await make()
      } catch (error) {
        say({ bench, metric: name, unavailable: error.message.slice(0, 300) })
      }
    }
    return peers
  }
  // One more sample of `metric`; a peer that fails now is printed and not asked again.
  async sample(name, metric, measure) {
    if (!this.there[name]) return
    try {
      const ms = await measure(this.there[name])
      ;(this.samples[metric] ??= new Samples()).add(ms)
    } catch (error) {
      say({ bench: this.bench, metric, unavailable: error.message.slice(0, 300) })
      await this.#close(name)
    }
  }
  async #close(name) {
    const peer = this.there[name]
    delete this.there[name]
    await peer?.close()
  }
  async close() { for (const name of Object.keys(this.there)) await this.#close(name) }
}
