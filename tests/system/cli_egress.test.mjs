// Where a sandbox may go, on the command line: what is said is in force, what is refused says why, what was tried is told.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../e2b/sdk.mjs'
import { output, space } from './cli.mjs'

let id
const made = []
const create = (...flags) => { made.push(output('create', ...flags).trim()); return made.at(-1) }
before(() => { id = create('--allow', '9.9.9.9:443', '--allow', '*.example.com') })
after(() => made.forEach((one) => space(['kill', one])))
const policy = () => JSON.parse(output('egress', 'show', id, '--json')).policy
const reason = (...asked) => JSON.parse(space(['egress', 'test', id, ...asked, '--json']).stdout).reason

test('create says it, show shows it', () => {
  assert.deepEqual(policy(), { mode: 'restricted', allow: ['9.9.9.9:443', '*.example.com'] })
  const shown = output('egress', 'show', id.slice(0, 12))
  assert.match(shown, /^mode {9}restricted: only what a rule allows\nallow {8}9\.9\.9\.9:443\n {13}\*\.example\.com\ngeneration {3}1\ngateway {6}ok\nconnections /)
  assert.deepEqual(JSON.parse(output('egress', 'show', create('--egress', 'deny_all'), '--json')).policy, { mode: 'deny_all' })
  assert.match(space(['create', '--egress', 'closed']).stderr, /allow_all/)
  assert.match(space(['create', '--allow', '*.com']).stderr, /too broad/)
})

test('test tells the rule that decides, and exits by it', () => {
  const allowed = space(['egress', 'test', id, '9.9.9.9:443'])
  assert.equal(allowed.status, 0)
  assert.match(allowed.stdout, /^allowed {2}9\.9\.9\.9:443\nreason {3}allow_rule[^\n]*\nrule {5}allow 9\.9\.9\.9:443\n/)
  const refused = space(['egress', 'test', id, 'https://example.com/'])
  assert.equal(refused.status, 1)
  assert.match(refused.stdout, /^refused {2}https:\/\/example\.com\/\nreason {3}deny_mode: [^\n]+\nrule {5}none\n/)
  assert.equal(reason('http://169.254.169.254/'), 'deny_platform')
  assert.deepEqual([reason('9.9.9.9:444'), reason('http://[::1]/'), reason('[::1]:22')], ['deny_port', 'deny_platform', 'deny_platform'])
  assert.match(space(['egress', 'test', id, 'http://2130706433/']).stderr, /2130706433/)
  assert.equal(space(['egress', 'test', id, 'example.com']).status, 2)
})

test('allow, deny, remove and set are in force when they return; bad ones change nothing', () => {
  assert.equal(output('egress', 'allow', id, '8.8.8.8'), 'in force: generation 2; 0 live connections closed\n')
  assert.equal(reason('8.8.8.8:53'), 'allow_rule')
  output('egress', 'deny', id, '8.8.8.8:53')
  assert.equal(reason('8.8.8.8:53'), 'deny_rule')
  output('egress', 'remove', id, '8.8.8.8', '8.8.8.8:53')
  assert.equal(reason('8.8.8.8:53'), 'deny_mode')
  const kept = policy()
  for (const [words, message] of [
    [['allow', id, '10.0.0.1/8'], /10\.0\.0\.0\/8/], [['allow', id, '169.254.169.254'], /closed to every sandbox/], [['allow', id, '*.com'], /too broad/],
    [['remove', id, 'nothing.example'], /no rule 'nothing\.example'/], [['set', id, 'allow_all', '--allow', 'a.example'], /means nothing/], [['set', id], /one of the two/],
  ]) {
    const refused = space(['egress', ...words])
    assert.notEqual(refused.status, 0, words.join(' '))
    assert.match(refused.stderr, message)
  }
  assert.deepEqual(policy(), kept)
  const shown = space(['egress', 'show', id, '--json']).stdout
  output('egress', 'set', id, 'deny_all')
  assert.equal(reason('9.9.9.9:443'), 'deny_mode')
  assert.equal(space(['egress', 'set', id, '--file', '-'], { input: shown }).status, 0)
  assert.deepEqual(policy(), kept)
})

test('the log tells what was tried, once, and in JSON by line when followed', async () => {
  output('exec', id, '--', 'sh', '-c', 'python3 -c "import socket; socket.create_connection((\'8.8.4.4\', 81), 20)" || true')
  output('exec', id, '--', 'sh', '-c', 'getent ahosts other.example.org || true')
  let log
  await until(() => (log = output('egress', 'log', '--denied', id)).includes('other.example.org'), 'it is in the log')
  assert.match(log, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ {2}deny {3}tcp {3}8\.8\.4\.4:81 {2}deny_mode/m)
  assert.match(log, /^\S+ \S+ {2}deny {3}dns {3}other\.example\.org {2}deny_mode/m)
  assert.ok(!log.includes('\x1b'), 'no colour where there is no terminal')
  const all = JSON.parse(output('egress', 'log', id, '--json')).entries
  assert.ok(all.some((entry) => entry.kind === 'policy') && all.some((entry) => entry.address === '8.8.4.4' && !entry.allowed))
})
