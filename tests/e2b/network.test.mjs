// E2B's network options with the unmodified SDKs: at create, changed later, refused in E2B's words; what they mean is asked
// of the gateway, which judges a connection without making it.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { api, failure, sdk, Sandbox } from './sdk.mjs'

const everything = sdk.ALL_TRAFFIC ?? '0.0.0.0/0'
const open = { host: '9.9.9.9', port: 443 }
const other = { host: '8.8.8.8', port: 443 }

async function judge(sandbox, request) {
  const answer = await api('POST', `/v1/sandboxes/${sandbox.sandboxId}/egress/test`, request)
  assert.equal(answer.status, 200, await answer.clone().text())
  return answer.json()
}
const allows = async (sandbox, request) => (await judge(sandbox, request)).allowed
const detail = async (sandbox) => (await api('GET', `/sandboxes/${sandbox.sandboxId}`)).json()
const egress = async (sandbox) => (await api('GET', `/v1/sandboxes/${sandbox.sandboxId}/egress`)).json()

async function withSandbox(options, work) {
  const sandbox = await Sandbox.create(options)
  try {
    await work(sandbox)
  } finally {
    await sandbox.kill()
  }
}

let shared
before(async () => { shared = await Sandbox.create() })
after(async () => { await shared?.kill() })

test('without options a sandbox reaches public addresses and no private one', async () => {
  assert.equal((await egress(shared)).policy.mode, 'allow_all')
  assert.equal(await allows(shared, open), true)
  for (const host of ['10.0.0.1', '127.0.0.1', '169.254.169.254', '::ffff:10.0.0.1'])
    assert.equal((await judge(shared, { host, port: 80 })).reason, 'deny_platform', host)
})

test('allowInternetAccess false closes everything, names too', async () => {
  await withSandbox({ allowInternetAccess: false }, async (sandbox) => {
    assert.equal((await egress(sandbox)).policy.mode, 'deny_all')
    assert.deepEqual([(await judge(sandbox, open)).reason, (await judge(sandbox, { url: 'https://example.com/' })).reason], ['deny_mode', 'deny_mode'])
    assert.equal((await detail(sandbox)).allowInternetAccess, false)
    const tried = await sandbox.commands.run(`python3 -c "
import socket
for to in [('9.9.9.9', 443), ('example.com', 443)]:
    try: print(socket.create_connection(to, 10).recv(1))
    except OSError as error: print(type(error).__name__)"`)
    // The gateway takes every connection and resets it then; a connect may see it, or the first read.
    const [address, name] = tried.stdout.trim().split('\n')
    assert.match(address, /^Connection(Refused|Reset)Error$/)
    assert.equal(name, 'gaierror')
    const { entries } = await (await api('GET', `/v1/sandboxes/${sandbox.sandboxId}/egress/log?limit=1000`)).json()
    assert.ok(entries.some((e) => e.kind !== 'dns' && e.address === '9.9.9.9' && e.reason === 'deny_mode'), JSON.stringify(entries))
    assert.ok(entries.some((e) => e.kind === 'dns' && e.host === 'example.com' && !e.allowed), JSON.stringify(entries))
  })
})

test('denyOut of an address; allowOut beats denyOut', async () => {
  await withSandbox({ network: { denyOut: ['8.8.8.8'] } }, async (sandbox) => {
    assert.deepEqual([await allows(sandbox, open), await allows(sandbox, other)], [true, false])
    assert.deepEqual((await detail(sandbox)).network.denyOut, ['8.8.8.8'])
  })
  await withSandbox({ network: { denyOut: [everything], allowOut: ['9.9.9.0/24', '*.example.com'] } }, async (sandbox) => {
    assert.deepEqual([await allows(sandbox, open), await allows(sandbox, other)], [true, false])
    const verdict = await judge(sandbox, { url: 'https://a.example.com/' })
    assert.notEqual(verdict.reason, 'deny_mode')
    assert.equal((await judge(sandbox, { url: 'https://example.com/' })).reason, 'deny_mode')
    assert.deepEqual((await detail(sandbox)).network, { allowOut: ['9.9.9.0/24', '*.example.com'], denyOut: ['0.0.0.0/0'] })
  })
})

test('updateNetwork replaces, in force when it resolves', async () => {
  const before = (await egress(shared)).generation
  await shared.updateNetwork({ denyOut: [everything], allowOut: ['9.9.9.9'] })
  assert.deepEqual([await allows(shared, open), await allows(shared, other)], [true, false])
  assert.equal((await egress(shared)).generation, before + 1)
  await shared.updateNetwork({ denyOut: ['9.9.9.9'] })
  assert.deepEqual([await allows(shared, open), await allows(shared, other)], [false, true])
  await shared.updateNetwork({ allowInternetAccess: false })
  assert.deepEqual([await allows(shared, open), await allows(shared, other)], [false, false])
  await shared.updateNetwork({})
  assert.deepEqual([await allows(shared, open), await allows(shared, other)], [true, true])
  assert.equal((await detail(shared)).allowInternetAccess, null)
})

test('bad options are refused in E2B\'s words and change nothing', async () => {
  await shared.updateNetwork({ denyOut: ['8.8.8.8'] })
  const { generation } = await egress(shared)
  const domains = /When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny out to block all other traffic\./
  const refused = [
    [{ allowOut: ['example.com'] }, domains],
    [{ denyOut: ['example.com'] }, /'network\.denyOut' entry 'example\.com' is not an IP address or CIDR/],
    [{ allowOut: ['not a name'], denyOut: [everything] }, /'network\.allowOut' entry 'not a name' is not an IP address, CIDR or domain/],
    [{ allowOut: ['*'], denyOut: [everything] }, /'network\.allowOut' entry '\*' is not an IP address, CIDR or domain/],
    [{ allowOut: ['10.0.0.0/8'] }, /closed to every sandbox/],
    [{ denyOut: ['8.8.8.8/8'] }, /8\.0\.0\.0\/8/],
  ]
  for (const [network, message] of refused) {
    for (const attempt of [() => shared.updateNetwork(network), () => Sandbox.create({ network })]) {
      const error = await failure(attempt())
      assert.match(error.message, /^400: /, JSON.stringify(network))
      assert.match(error.message, message)
    }
  }
  const answers = await Promise.all([
    { rules: { 'api.example.com': [{ transform: { headers: { A: 'b' } } }] } },
    { egressProxy: { address: 'proxy.example.com:1080' } },
  ].map((body) => api('PUT', `/sandboxes/${shared.sandboxId}/network`, body)))
  assert.deepEqual(answers.map((a) => a.status), [400, 400])
  assert.equal((await egress(shared)).generation, generation)
  assert.equal(await allows(shared, other), false)
})

test('only a running sandbox, and one that exists', async () => {
  await withSandbox({}, async (sandbox) => {
    await sandbox.pause()
    const error = await failure(sandbox.updateNetwork({ denyOut: [everything] }))
    assert.match(error.message, /^409: .*is paused/)
    await Sandbox.connect(sandbox.sandboxId)
    await sandbox.updateNetwork({ denyOut: [everything] })
    assert.equal(await allows(sandbox, open), false)
  })
  const gone = await failure(Sandbox.updateNetwork('i0000000000000000000', { denyOut: [everything] }))
  assert.equal(gone.constructor.name, 'SandboxNotFoundError')
})
