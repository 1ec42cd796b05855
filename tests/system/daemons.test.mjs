// What a daemon that was taken over would have: the daemons' own confinement and the doors between them, on a real
// instance. What each of their profiles refuses is in src/*/confinement_test.cc.
import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import { after, test } from 'node:test'
import { api, Sandbox, until } from '../e2b/sdk.mjs'
import { daemon, run, state } from './machine.mjs'

const unprivileged = ['space-control', 'space-sandboxd']
const idOf = (flag, user) => Number(execFileSync('id', [flag, user], { encoding: 'utf8' }))
const field = (text, name) => new RegExp(`^${name}:[ \\t]*(.*)$`, 'm').exec(text)?.[1]
const confinement = (status) => Object.fromEntries(['NoNewPrivs', 'Seccomp', 'CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'].map((name) => [name, field(status, name)]))
const none = '0'.repeat(16)

// An ordinary process of a daemon's user, to compare with.
const companions = []
after(() => { for (const child of companions) child.kill() })
async function companion(user) {
  const child = spawn('setpriv', ['--reuid', user, '--regid', user, '--clear-groups', 'sleep', '600'], { stdio: 'ignore' })
  companions.push(child)
  await until(() => fs.readFileSync(`/proc/${child.pid}/comm`, 'utf8') === 'sleep\n', 'the companion runs')
  return child.pid
}
const asUser = (user, ...argv) => spawnSync('setpriv', ['--reuid', user, '--regid', user, '--clear-groups', ...argv], { encoding: 'utf8' })

for (const name of unprivileged) {
  test(`${name}: a user of its own, no capability, no new privileges, a system call filter, in every thread`, async () => {
    const sandbox = await Sandbox.create() // makes it work, so that its threads are there
    await sandbox.kill()
    const { pid } = daemon(name)
    const tasks = fs.readdirSync(`/proc/${pid}/task`)
    for (const task of tasks) {
      const status = fs.readFileSync(`/proc/${pid}/task/${task}/status`, 'utf8')
      assert.deepEqual(confinement(status), { NoNewPrivs: '1', Seccomp: '2', CapInh: none, CapPrm: none, CapEff: none, CapBnd: none, CapAmb: none })
      assert.equal(field(status, 'Uid'), Array(4).fill(idOf('-u', name)).join('\t'))
      assert.equal(field(status, 'Groups').trim(), '')
      assert.equal(field(status, 'Umask'), '0077')
    }
    const other = fs.readFileSync(`/proc/${await companion(name)}/status`, 'utf8')
    assert.equal(field(other, 'Seccomp'), '0')
    assert.equal(field(other, 'NoNewPrivs'), '0')
    assert.notEqual(field(other, 'CapBnd'), none)
  })

  test(`${name}: its memory is nobody's, not even another process's of its own user`, async () => {
    const { pid } = daemon(name)
    const other = await companion(name)
    assert.equal(fs.statSync(`/proc/${pid}/mem`).uid, 0)
    assert.equal(fs.statSync(`/proc/${other}/mem`).uid, idOf('-u', name))
    assert.match(fs.readFileSync(`/proc/${pid}/limits`, 'utf8'), /^Max core file size +0 +0 /m)
    const spy = (victim) => asUser(name, 'cat', `/proc/${victim}/maps`)
    assert.match(spy(pid).stderr, /Permission denied/)
    assert.match(spy(other).stdout, /libc/)
  })

  test(`${name}: it says so in the log, and holds nothing of who started it`, () => {
    const lines = fs.readFileSync(`${state}/space.log`, 'utf8').split('\n').filter((line) => line.includes('"event":"confined"')).map((line) => JSON.parse(line))
    assert.ok(lines.some((line) => line.process === name && Number.isInteger(line.landlock_abi)))
    const { pid } = daemon(name)
    const files = fs.readdirSync(`/proc/${pid}/fd`).map((fd) => fs.readlinkSync(`/proc/${pid}/fd/${fd}`)).filter((path) => path.startsWith('/'))
    const own = name.slice('space-'.length)
    const expected = (path) => path === '/dev/null' || path === `${state}/space.log` || path.startsWith(`${state}/${own}/`) || path.startsWith('/sys/kernel/')
    assert.deepEqual(files.filter((path) => !expected(path)), [])
    assert.ok(files.some((path) => path.startsWith(`${state}/${own}/`)))
  })
}

// Connects as a user and says how many bytes come back: none at all when the door is shut.
const knock = `
import os, socket, struct, sys
path, uid, gid, kind = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
os.setgroups([]); os.setgid(gid); os.setuid(uid)
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET if kind == 'noded' else socket.SOCK_STREAM)
s.settimeout(20)
s.connect(path)
try:
    if kind == 'noded': s.send(struct.pack('<IIQ24s72s8Q', 0x53504e01, 1, 7, b'', b'', *[0] * 8))
    print(len(s.recv(4096)))
except (BrokenPipeError, ConnectionResetError):
    print(0)
`
const bytesFor = (kind, uid, gid) => {
  const path = kind === 'noded' ? `${run}/noded/noded.sock` : `${run}/control/node.sock`
  return Number(execFileSync('python3', ['-c', knock, path, String(uid), String(gid), kind], { encoding: 'utf8' }))
}

for (const kind of ['noded', 'control']) {
  test(`the door of space-${kind}: only the user of space-sandboxd is let in, not root, not its group`, async () => {
    const [uid, gid] = [idOf('-u', 'space-sandboxd'), idOf('-g', 'space-sandboxd')]
    assert.equal(bytesFor(kind, 0, 0), 0)
    assert.equal(bytesFor(kind, 65534, gid), 0)
    assert.ok(bytesFor(kind, uid, gid) > 0)
    await until(async () => (await (await api('GET', '/v1/node')).json()).connected, 'the node is connected', 20_000)
  })
}

test('the units of deploy/systemd start the daemons with the flags that space up gives them', () => {
  const flagsOf = (words) => words.filter((word) => word.startsWith('--')).sort()
  for (const name of ['space-noded', ...unprivileged]) {
    const unit = fs.readFileSync(`${import.meta.dirname}/../../deploy/systemd/${name}.service`, 'utf8')
    const started = /^ExecStart=(.*)$/m.exec(unit)[1].split(/[\s"']+/)
    assert.deepEqual(flagsOf(started), flagsOf(daemon(name).cmdline), name)
  }
})

test('no daemon was ended by its own filter', () => {
  assert.doesNotMatch(fs.readFileSync(`${state}/space.log`, 'utf8'), /signal 31/)
})
