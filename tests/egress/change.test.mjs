// Attack cases 51-53, 56, 57: policies that change, sandboxes that move, gateways that die, rules that are flushed.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, before, test } from 'node:test'
import { daemon, run as runFolder } from '../system/machine.mjs'
import { detail, ok } from '../snapshot/sandboxes.mjs'
import { api, at, egress, Guest, restricted, Sandbox, setPolicy, until, World } from './world.mjs'

let world, guest
before(async () => {
  world = await World.open()
  guest = await Guest.create(restricted('allowed.example.com', { cidr: `${at.allowed}/32`, ports: [7] }))
})
after(async () => {
  await guest?.kill()
  await world?.close()
})

const works = async (who) => assert.match((await who.run('curl -sS -m 20 http://allowed.example.com/')).stdout, /"host":"allowed\.example\.com"/)
const fails = async (who, url = 'http://blocked.example.net/') => assert.notEqual((await who.run(`curl -sSf -m 20 ${url}`)).exitCode, 0)
const slot = (who) => `${runFolder}/noded/netns/${who.sandboxId}`
const inSlot = (who, ...words) => execFileSync('nsenter', [`--net=${slot(who)}`, ...words], { encoding: 'utf8' })

test('51 a policy that gets narrower ends a download, an idle TLS connection and an idle one before it answers', async () => {
  await guest.run('(curl -sS -N http://allowed.example.com/slow > /tmp/slow; echo $? > /tmp/slow.code) & ' +
    '(curl -sSk -N https://allowed.example.com/slow > /tmp/tls; echo $? > /tmp/tls.code) & ' +
    `(python3 -c "
import socket
connection = socket.create_connection(('${at.allowed}', 7))
connection.settimeout(600)
try: print('ended', connection.recv(1))
except OSError: print('ended by a reset')" > /tmp/idle; echo $? > /tmp/idle.code) & disown -a`)
  await until(async () => (await egress(guest)).counters.flows >= 3, 'three flows live')
  const answer = await setPolicy(guest, restricted('other.example.com'))
  const now = await egress(guest)
  assert.equal(answer.cut, 3)
  assert.equal(now.counters.flows, 0, 'when the call returns they are gone')
  assert.equal(now.generation, answer.generation)
  await until(async () => (await guest.run('cat /tmp/slow.code /tmp/tls.code /tmp/idle.code | wc -l')).stdout.trim() === '3', 'the programs see it')
  await fails(guest, 'http://allowed.example.com/')
  assert.match((await guest.run('curl -sS -m 20 http://other.example.com/')).stdout, /other/)
})

test('51 a policy that gets wider cuts nothing', async () => {
  await setPolicy(guest, restricted('allowed.example.com'))
  await guest.run('(curl -sS -N http://allowed.example.com/slow > /tmp/slow2) & disown -a')
  await until(async () => (await egress(guest)).counters.flows === 1, 'it flows')
  assert.equal((await setPolicy(guest, restricted('allowed.example.com', 'other.example.com'))).cut, 0)
  assert.equal((await egress(guest)).counters.flows, 1)
  await guest.run('pkill curl')
})

test('52 a policy that means nothing is refused with a reason, and the old one goes on', async () => {
  const before = await egress(guest)
  for (const [policy, says] of [
    [restricted('*.com'), /\*\.com/], [restricted({ host: 'a*b.example.com' }), /a\*b/], [restricted('10.0.0.5/32'), /10\.0\.0\.5/], [{ mode: 'sometimes' }, /mode/],
    [{ mode: 'restricted', allow: [{ host: 'a.example.com', ports: [0] }] }, /port/], [{ mode: 'restricted', allow: 'all' }, /allow/],
    [{ mode: 'restricted', allow: [{ host: 'a.example.com' }], deny: [{ host: 'a.example.com' }] }, /a\.example\.com/], [{ ...restricted('a.example.com'), surprise: 1 }, /surprise/],
    [{ mode: 'restricted', allow: [{ host: 'a.example.com', inspect: true }] }, /inspect/],
  ]) {
    const answer = await api('PUT', `/v1/sandboxes/${guest.sandboxId}/egress`, policy)
    assert.equal(answer.status, 400, JSON.stringify(policy))
    assert.match((await answer.json()).message, says)
  }
  const now = await egress(guest)
  assert.deepEqual([now.generation, now.policy], [before.generation, before.policy])
  await works(guest)
  await fails(guest)
})

test('53 pause and resume, stop and start, rollback and fork keep the policy and its generation', async () => {
  const { generation, policy } = await egress(guest)
  const same = async (who, what) => {
    const now = await egress(who)
    assert.deepEqual([now.generation, now.policy], [generation, policy], what)
    await works(who)
    await fails(who)
  }
  await api('PUT', `/v1/sandboxes/${guest.sandboxId}/pause-policy`, { hotKeepSeconds: 0 })
  assert.equal(await guest.sandbox.pause(), true)
  await guest.sandbox.connect({ timeoutMs: 1_800_000 })
  await same(guest, 'resumed')
  const { number } = await ok(await api('POST', `/v1/sandboxes/${guest.sandboxId}/snapshots`))
  const children = await ok(await api('POST', `/v1/sandboxes/${guest.sandboxId}/fork`, { count: 1, timeout: 600 }))
  const list = children.forks ?? children.results ?? children
  const child = new Guest()
  child.sandboxId = (list[0].sandbox ?? list[0]).sandboxID
  child.sandbox = await Sandbox.connect(child.sandboxId, { timeoutMs: 600_000 })
  try {
    await same(child, 'forked')
    await setPolicy(child, restricted('other.example.com'))
    await fails(child, 'http://allowed.example.com/')
    await same(guest, 'the parent, whatever its child does')
  } finally {
    await child.kill()
  }
  await setPolicy(guest, policy)
  const kept = await egress(guest)
  await ok(await api('POST', `/v1/sandboxes/${guest.sandboxId}/rollback`, { snapshot: number }))
  assert.deepEqual([(await egress(guest)).generation, (await egress(guest)).policy], [kept.generation, policy], 'the present counts, not the snapshot')
  await works(guest)
  await ok(await api('POST', `/v1/sandboxes/${guest.sandboxId}/stop`))
  await ok(await api('POST', `/v1/sandboxes/${guest.sandboxId}/start`, { timeout: 1800 }))
  assert.equal((await egress(guest)).generation, kept.generation)
  await works(guest)
  await fails(guest)
})

test('56 the gateway killed in the middle: nothing leaves, and it comes back with the same policy', async () => {
  const { generation } = await egress(guest)
  await guest.run('(curl -sS -N http://allowed.example.com/slow > /tmp/slow3; echo $? > /tmp/slow3.code) & disown -a')
  await until(async () => (await egress(guest)).counters.flows === 1, 'it flows')
  const { pid } = daemon('space-netd')
  process.kill(pid, 'SIGSTOP') // first deaf, then dead: no moment in which a packet passes it by
  await world.forget()
  await guest.run(`curl -sS -m 3 http://${at.attacker}/ ; true`)
  process.kill(pid, 'SIGKILL')
  await guest.run(`curl -sS -m 3 http://${at.attacker}/ ; true`)
  await world.nothingLeftFor(at.attacker)
  await until(() => daemon('space-netd') && daemon('space-netd').pid !== pid, 'it is started again')
  await until(async () => (await guest.run('curl -sS -m 5 http://allowed.example.com/')).exitCode === 0, 'it serves again')
  assert.equal((await egress(guest)).generation, generation)
  await fails(guest)
  await until(async () => (await guest.run('cat /tmp/slow3.code')).exitCode === 0, 'the download ended')
})

test('56 the resolver dead: names fail, nothing goes round it', async () => {
  await world.setZone({ 'allowed.example.com': { A: [] } })
  await world.forget()
  await guest.run('curl -sS -m 10 http://other.example.com:8080/ ; true')
  await world.setZone({ 'allowed.example.com': { A: [at.allowed] } })
  await until(async () => (await guest.run('curl -sS -m 5 http://allowed.example.com/')).exitCode === 0, 'it resolves again')
})

test('57 rules flushed by hand: nothing leaves without them, and they are put back', async () => {
  assert.match(inSlot(guest, 'nft', 'list', 'tables'), /inet space/)
  await world.forget()
  inSlot(guest, 'nft', 'flush', 'ruleset')
  for (const [address, port] of [[at.attacker, 80], [at.attacker, 9999]]) await guest.probe('tcp', address, port, '00', 2)
  await guest.probe('udp', at.attacker, 9999, '00', 1)
  assert.deepEqual((await world.seen()).requests.filter(({ to }) => to === at.attacker), [])
  assert.deepEqual((await world.seen()).datagrams, [])
  await until(() => /inet space/.test(inSlot(guest, 'nft', 'list', 'tables')), 'the watcher puts them back')
  await until(async () => (await guest.run('curl -sS -m 5 http://allowed.example.com/')).exitCode === 0, 'it works again')
  await until(async () => (await detail(guest)).network?.state === 'repaired' || (await egress(guest)).network?.state === 'repaired', 'and says so')
})

test('57 the namespace taken away: the machine ends, says why and comes back behind a gateway', async () => {
  const before = (await detail(guest)).recovered?.at
  execFileSync('umount', ['-l', slot(guest)])
  execFileSync('unshare', [`--net=${slot(guest)}`, 'true'])
  await until(async () => (await detail(guest)).recovered && (await detail(guest)).recovered.at !== before, 'it is recovered', 120_000)
  assert.match((await detail(guest)).recovered.cause, /network/)
  await guest.sandbox.connect({ timeoutMs: 1_800_000 })
  await until(async () => (await guest.run('curl -sS -m 5 http://allowed.example.com/')).exitCode === 0, 'it works again')
  await fails(guest)
})
