// What holds a real sandbox, as `space isolation` and the API say it, who may run beside it, and KSM, which lets nobody run.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import { after, before, test } from 'node:test'
import { until } from '../e2b/sdk.mjs'
import { output, space } from './cli.mjs'
import { Instance } from './instance.mjs'
import { daemon, state } from './machine.mjs'

const own = { url: process.env.SPACE_API_URL, key: process.env.SPACE_API_KEY }
const foreign = `e2b_${'5'.repeat(40)}`
const layers = ['descriptors', 'cgroups', 'rlimits', 'namespaces', 'root', 'user namespace', 'identity', 'capabilities', 'no_new_privs',
  'not dumpable', 'landlock', 'seccomp', 'qemu sandbox']

async function api(method, path, { url = own.url, key = own.key, body } = {}) {
  const answer = await fetch(url + path, { method, headers: { 'X-API-Key': key, 'Content-Type': 'application/json' }, body })
  const text = await answer.text()
  return { status: answer.status, body: text ? JSON.parse(text) : undefined }
}
const create = (options) => api('POST', '/v2/sandboxes', { ...options, body: '{"templateID":"base"}' })

// Teams are made by nobody yet but the first start: a second one, straight into the database.
function addTeam(folder, key) {
  execFileSync('python3', ['-c', `
import sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=20) as db:
    db.execute("INSERT OR IGNORE INTO teams(id, name) VALUES ('second', 'second')")
    db.execute("INSERT OR IGNORE INTO api_keys(sha256, team, name, created_at) VALUES (?, 'second', 'test', 0)", (sys.argv[2],))
`, `${folder}/control/control.db`, createHash('sha256').update(key).digest('hex')])
}

let id
before(() => {
  id = output('create').trim()
  addTeam(state, foreign)
})
after(() => space(['kill', id]))

test('every layer stands or is one that this kernel has not', async () => {
  const { status, body } = await api('GET', `/v1/sandboxes/${id}/isolation`)
  assert.equal(status, 200)
  assert.deepEqual(body.layers.map((layer) => layer.name), layers)
  for (const layer of body.layers) assert.ok(['active', 'unavailable'].includes(layer.state), JSON.stringify(layer))
  assert.ok(body.layers.filter((layer) => layer.state === 'active').length >= 10, JSON.stringify(body.layers))
  assert.equal(body.sandboxID, id)
  assert.equal(body.accelerator, (await api('GET', '/v1/node')).body.accelerator)
  assert.equal(body.hardwareIsolation, body.accelerator === 'kvm')
})

test('space isolation says the same, hardware first', async () => {
  const { body } = await api('GET', `/v1/sandboxes/${id}/isolation`)
  assert.deepEqual(JSON.parse(output('isolation', id, '--json')), body)
  const lines = output('isolation', id.slice(0, 8)).trim().split('\n')
  assert.equal(lines[0], body.hardwareIsolation ? 'hardware isolation: yes (KVM)' : 'hardware isolation: NO (TCG)')
  const marks = { active: 'ok ', unavailable: 'n/a' }
  body.layers.forEach((layer, i) => {
    assert.ok(lines[i + 1].startsWith(`${marks[layer.state]}  ${layer.name}`), lines[i + 1])
    assert.ok(lines[i + 1].endsWith(layer.detail), lines[i + 1])
  })
  assert.equal(/the jail is the only wall/.test(lines.at(-1)), !body.hardwareIsolation)
})

test('nobody else is told: unknown sandboxes and those of another team are 404', async () => {
  assert.equal((await api('GET', '/v1/sandboxes/i0000000000000000000/isolation')).status, 404)
  assert.equal((await api('GET', `/v1/sandboxes/${id}/isolation`, { key: foreign })).status, 404)
  assert.equal((await api('GET', '/v2/sandboxes', { key: foreign })).status, 200)
  assert.equal((await api('GET', `/v1/sandboxes/${id}/isolation`, { key: `e2b_${'0'.repeat(40)}` })).status, 401)
  assert.notEqual(space(['isolation', 'i0000000000000000000']).status, 0)
})

test('without hardware isolation a node is one team\'s', async () => {
  const { body: { hardwareIsolation } } = await api('GET', `/v1/sandboxes/${id}/isolation`)
  const second = await create({ key: foreign })
  if (hardwareIsolation) {
    assert.equal(second.status, 201)
    await api('DELETE', `/sandboxes/${second.body.sandboxID}`, { key: foreign })
    return
  }
  assert.equal(second.status, 503)
  assert.equal(second.body.error_code, 'sandbox_tcg_multitenant_refused')
  assert.match(second.body.message, /allow_tcg_multitenant = true/)
  space(['kill', output('create').trim()])  // its own team goes on
})

test('with allow_tcg_multitenant it is everybody\'s; while KSM is on it is nobody\'s', async () => {
  const instance = await Instance.start({ flags: ['--allow-tcg-multitenant'], ownMounts: true })
  try {
    const ours = { url: instance.url, key: instance.key }
    const theirs = { url: instance.url, key: foreign }
    addTeam(instance.state, foreign)
    for (const team of [ours, theirs]) assert.equal((await create(team)).status, 201)
    await ksmStopsCreates(instance, ours)
  } finally {
    instance.stop()
  }
})

// In the instance's own view, which a new space-sandboxd sees when it starts.
async function ksmStopsCreates(instance, team) {
  const file = `${instance.root}/ksm`
  fs.writeFileSync(file, '1\n')
  instance.inside(`mount --bind ${file} /sys/kernel/mm/ksm/run`)
  const { pid } = daemon('space-sandboxd', instance.run)
  process.kill(pid, 'SIGKILL')
  await until(() => (daemon('space-sandboxd', instance.run)?.pid ?? pid) !== pid, 'a new space-sandboxd')
  await until(async () => (await api('GET', '/v1/node', team)).body.connected, 'the node')
  const refused = await create(team)
  assert.equal(refused.status, 503)
  assert.match(refused.body.message, /KSM is on.*echo 2 > \/sys\/kernel\/mm\/ksm\/run/)
  fs.writeFileSync(file, '2\n')
  assert.equal((await create(team)).status, 201)
}
