// Rest on the command line: pause, resume, stop, start, snapshots, fork, rollback, pool; and the end of the platform in good order.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Sandbox, until } from '../e2b/sdk.mjs'
import { output, space } from './cli.mjs'
import { daemon, qemuOf, run, state, supervisor, up, virtualMachines } from './machine.mjs'

const here = ['--state', state, '--run', run]
const made = []
const create = (...flags) => { made.push(output('create', ...flags).trim()); return made.at(-1) }
after(() => made.forEach((id) => space(['kill', id])))
const shows = (id) => output('ls').split('\n').find((line) => line.startsWith(id))?.split(/\s+/)[1]

let id
before(() => { id = create('--life', '1800') })

test('pause and resume by the beginning of an id; ls and info tell', () => {
  output('exec', id, '--', 'sh', '-c', 'echo kept > /dev/shm/word')
  assert.equal(output('pause', id.slice(0, 12)), `paused ${id}\n`)
  assert.equal(shows(id), 'paused')
  assert.equal(JSON.parse(output('info', id, '--json')).stateDetail, 'paused')
  const twice = space(['pause', id])
  assert.equal(twice.status, 1)
  assert.match(twice.stderr, /already paused/)
  assert.deepEqual(JSON.parse(output('resume', id, '--json')), [{ sandboxID: id, changed: true }])
  assert.equal(output('resume', id), `${id} runs already\n`)
  assert.equal(output('exec', id, '--', 'cat', '/dev/shm/word'), 'kept\n')
  assert.equal(JSON.parse(output('info', id, '--json')).memory, 'live')
})

test('stop and start: the disk stays, the memory does not', () => {
  output('exec', id, '--', 'sh', '-c', 'echo kept > /home/user/word; echo lost > /dev/shm/word')
  assert.equal(output('stop', id), `stopped ${id}\n`)
  assert.equal(shows(id), 'stopped')
  assert.equal(output('start', id, '--life', '1800'), `started ${id}\n`)
  assert.equal(output('exec', id, '--', 'sh', '-c', 'cat /home/user/word; ls /dev/shm'), 'kept\n')
})

test('T60: exec on a sandbox that rests brings it back, with a life to be used in', () => {
  output('pause', id)
  assert.equal(output('exec', id, '--', 'echo', 'awake'), 'awake\n')
  assert.ok(Date.parse(JSON.parse(output('info', id, '--json')).endAt) > Date.now() + 600_000)
})

test('several at once: each is tried, the exit code tells', () => {
  const other = create()
  const unknown = 'i' + 'x'.repeat(19)
  const result = space(['pause', id, unknown, other])
  assert.equal(result.status, 1)
  assert.deepEqual(result.stdout.trim().split('\n'), [`paused ${id}`, `paused ${other}`])
  assert.match(result.stderr, new RegExp(unknown))
  output('resume', id, other)
  output('kill', other)
})

test('snapshots: made, listed, named, pinned, removed', () => {
  assert.match(output('snapshot', id), /^snapshot \d+: .* written, it stood still for \d+\.\d ms\n$/)
  const { number, quiesced } = JSON.parse(output('snapshot', id, '--name', 'clean', '--json'))
  assert.equal(quiesced, true)
  assert.match(output('snapshot', 'ls', id), new RegExp(`NUMBER.*\n(.*\n)*${number} .*clean`))
  assert.match(output('snapshot', 'pin', id, String(number)), /stays/)
  assert.match(output('snapshot', 'unpin', id, String(number)), /no longer/)
  const needed = space(['snapshot', 'rm', id, String(number)]) // the memory of what runs is told from it
  assert.equal(needed.status, 1)
  assert.match(needed.stderr, /stop it/)
  const disk = JSON.parse(output('snapshot', id, '--disk', '--json')).number
  assert.match(output('snapshot', 'rm', id, String(disk)), /removed/)
  const left = JSON.parse(output('snapshot', 'ls', id, '--json')).snapshots.map((one) => one.number)
  assert.deepEqual([left.includes(disk), left.includes(number)], [false, true])
  const missing = space(['snapshot', 'rm', id, '9999'])
  assert.equal(missing.status, 1)
  assert.match(missing.stderr, /space snapshot ls/)
  assert.match(output('snapshot', id, '--disk'), /^snapshot \d+: disk, /)
  assert.equal(output('exec', id, '--', 'echo', 'on'), 'on\n')
})

test('rollback and its undo, fork, history', () => {
  output('exec', id, '--', 'sh', '-c', 'echo one > /dev/shm/step')
  const { number } = JSON.parse(output('snapshot', id, '--json'))
  output('exec', id, '--', 'sh', '-c', 'echo two > /dev/shm/step')
  assert.equal(output('rollback', id, String(number)), `${id} is as it was at snapshot ${number}\n`)
  assert.equal(output('exec', id, '--', 'cat', '/dev/shm/step'), 'one\n')
  output('rollback', id, '--undo')
  assert.equal(output('exec', id, '--', 'cat', '/dev/shm/step'), 'two\n')
  assert.equal(space(['rollback', id]).status, 2)
  assert.equal(space(['rollback', id, '9999']).status, 1)
  const children = output('fork', id, '--count', '2').trim().split('\n')
  made.push(...children)
  assert.equal(new Set([...children, id]).size, 3)
  for (const child of children) assert.equal(output('exec', child, '--', 'cat', '/dev/shm/step'), 'two\n')
  const tree = space(['history', id], { env: { ...process.env, LC_ALL: 'C.UTF-8' } }).stdout
  console.log(tree.replace(/^/gm, '# '))
  for (const child of children) assert.ok(tree.includes(child))
  assert.match(tree, /├─ branch|│ /)
  assert.ok(tree.endsWith('└─ now\n'))
  assert.match(space(['history', id], { env: { ...process.env, LC_ALL: 'C' } }).stdout, /^`-- now$/m)
  assert.equal(space(['fork', id, '--count', '101']).status, 2)
})

test('schedule and recovery: shown, set, refused', () => {
  assert.match(output('schedule', id), /^no schedule/)
  assert.match(output('schedule', id, 'default'), /^disk   every 10 min, kept 6 x 10 min, 24 x 1 h, 7 x 1 day\nfull   every 1 h, kept 3 x 1 h\n$/)
  assert.match(output('schedule', id, '--disk-every', '5m', '--quota', '10GiB'), /^disk   every 5 min, kept 6 x 5 min\nquota  10\.0 GiB/)
  assert.match(output('info', id), /schedule .*every 5 min/)
  const refused = space(['schedule', id, '--disk-every', '1s'])
  assert.equal(refused.status, 2)
  assert.match(output('schedule', id), /every 5 min/)
  assert.match(output('schedule', id, 'off'), /^no schedule/)
  assert.match(output('recovery', id), /^policy     disk/)
  assert.match(output('recovery', id, 'checkpoint'), /^policy     checkpoint/)
  assert.equal(space(['recovery', id, 'sometimes']).status, 2)
})

test('what is chosen at creation', async () => {
  const sandbox = create('--life', 'never', '--on-timeout', 'pause', '--auto-resume', '--idle-pause', '3')
  const info = () => JSON.parse(output('info', sandbox, '--json'))
  assert.equal(info().endAt, '9999-12-31T23:59:59Z')
  assert.deepEqual(info().lifecycle, { onTimeout: 'pause', autoResume: true })
  assert.equal(info().pausePolicy.idlePauseSeconds, 3)
  await until(() => info().idle === true, 'it rests by itself')
  assert.equal(shows(sandbox), 'running')
  assert.equal(output('exec', sandbox, '--', 'echo', 'here'), 'here\n')
  assert.match(space(['create', '--life', '0']).stderr, /seconds, or never/)
  assert.match(space(['create', '--on-timeout', 'explode']).stderr, /kill/)
})

test('pool', async () => {
  const base = () => JSON.parse(output('pool', 'ls', '--json')).pools.find((pool) => pool.template === 'base')
  assert.match(output('pool', 'ls'), /TEMPLATE.*READY.*HITS/)
  assert.match(output('pool', 'set', 'base', '1'), /^1 of base/)
  await until(() => base().parked === 1, 'one is ready')
  const hits = base().hits
  const quick = create()
  assert.equal(base().hits, hits + 1)
  assert.equal(output('exec', quick, '--', 'echo', 'fresh'), 'fresh\n')
  output('kill', quick)
  assert.match(output('pool', 'set', 'base', '0'), /^0 of base/)
  await until(() => base().parked === 0, 'none is')
  assert.match(output('pool', 'set', 'base', 'default'), /as this node was started/)
  assert.notEqual(space(['pool', 'set', 'base', 'some']).status, 0)
  assert.match(space(['pool', 'set', 'no-such-template', '1']).stderr, /not found/)
})

const counts = (sandbox) => Number(output('exec', sandbox, '--', 'sh', '-c', 'cat /dev/shm/ticks 2>/dev/null | wc -l'))

test('down keeps what runs, up brings it back', async () => {
  const sandbox = create('--life', '1800')
  output('exec', '-d', sandbox, '--', 'sh', '-c', 'while :; do echo tick >> /dev/shm/ticks; sleep 0.1; done')
  await until(() => counts(sandbox) > 3, 'it counts')
  const before = counts(sandbox)
  assert.match(output('down', ...here), /SPACE is down; .*kept/)
  await until(() => virtualMachines().length === 0, 'the last machine is gone', 5_000)
  assert.match(space(['down', ...here]).stderr, /not up/)
  up()
  await until(() => shows(sandbox) === 'running' && counts(sandbox) > before + 3, 'it goes on')
  output('kill', sandbox)
})

test('down --keep-running and a killed supervisor leave the virtual machines alone', async () => {
  output('exec', id, '--', 'echo', 'awake')
  const machine = qemuOf(id).pid
  assert.match(output('down', '--keep-running', ...here), /run on/)
  assert.equal(qemuOf(id).pid, machine)
  up()
  assert.equal(output('exec', id, '--', 'echo', 'on'), 'on\n')
  process.kill(supervisor(), 'SIGKILL')
  await until(() => ['space-noded', 'space-netd', 'space-sandboxd', 'space-control'].every((name) => !daemon(name)), 'the daemons end')
  assert.equal(qemuOf(id).pid, machine)
  up()
  assert.equal(output('exec', id, '--', 'echo', 'on'), 'on\n')
  assert.equal(qemuOf(id).pid, machine)
  assert.equal(await Sandbox.kill(id), true)
})
