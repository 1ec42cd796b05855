// Attack case 67: what people run every day, unchanged, through a policy that names what it may reach.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import { after, before, test } from 'node:test'
import { at, egress, Guest, restricted, World } from './world.mjs'

const gib = 2 ** 30
let world, guest
before(async () => {
  world = await World.open({ 'mirror.example.com': { A: [at.other], AAAA: [at.allowed6] }, 'grpc.example.com': { A: [at.other] } }, { tools: true })
  guest = await Guest.create(restricted('allowed.example.com', 'mirror.example.com', { host: 'grpc.example.com', ports: [50051] }))
  await guest.sandbox.files.write('/usr/local/share/ca-certificates/tests.crt', world.ca, { user: 'root' })
  await guest.run('update-ca-certificates')
  const here = new URL('.', import.meta.url).pathname
  const tar = execFileSync('tar', ['-C', here, '-cz', 'node_modules'], { maxBuffer: 1 << 28 })
  await guest.sandbox.files.write('/root/modules.tgz', new Blob([tar]), { user: 'root' })
  const wheels = '/usr/share/python-wheels'
  const pip = fs.readdirSync(wheels).find((name) => name.startsWith('pip-'))
  await guest.sandbox.files.write('/root/pip.whl', new Blob([fs.readFileSync(`${wheels}/${pip}`)]), { user: 'root' })
  assert.equal((await guest.run(`cd /root && tar xzf modules.tgz && mv pip.whl ${pip} && ln -s ${pip} pip.whl`)).exitCode, 0)
})
after(async () => {
  await guest?.kill()
  await world?.close()
})

// Trust in the test CA is set as an operator of a private CA sets it; no tool gets a flag for the gateway.
const env = 'export NODE_EXTRA_CA_CERTS=/usr/local/share/ca-certificates/tests.crt REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt HOME=/root\ncd /root\n'
async function works(command, expected) {
  const { exitCode, stdout, stderr } = await guest.run(env + command, { timeoutMs: 500_000 })
  assert.equal(exitCode, 0, `${stdout}\n${stderr}`)
  assert.match(stdout, expected, stderr)
}

test('67 curl over IPv4, IPv6, HTTP/1.1 and HTTP/2', async () => {
  await works('curl -sS https://allowed.example.com/', /"host":"allowed\.example\.com"/)
  await works('curl -sS -4 --http1.1 https://allowed.example.com/', /"to":"45\.0\.2\.10"/)
  await works('curl -sS -6 https://allowed.example.com/', /"to":"2a0d:45::10"/)
  await works('curl -sS --http2 -o /dev/null -w "%{http_version}\\n" https://allowed.example.com/', /^2$/m)
})
test('67 control: the same curl to a name that is not allowed fails and says why', async () => {
  const { exitCode, stderr } = await guest.run(`${env}curl -sS https://blocked.example.net/`)
  assert.notEqual(exitCode, 0)
  assert.match(stderr, /resolve/)
})
test('67 git clones', () => works('git clone -q https://mirror.example.com/mirror/project.git && cat project/README', /from the mirror/))
test('67 pip installs', () => works('python3 pip.whl/pip install -q --no-cache-dir --target /root/py --index-url https://mirror.example.com/mirror/simple/ spacetest && PYTHONPATH=/root/py python3 -c "import spacetest; print(spacetest.word)"', /from the mirror/))
test('67 npm installs', () => works('mkdir -p app && cd app && echo {} > package.json && node ../node_modules/npm/bin/npm-cli.js install --silent --no-audit --no-fund --registry https://mirror.example.com/mirror/npm/ spacetest && node -p "require(\'spacetest\')"', /from the mirror/))
test('67 apt installs', () => works('echo "deb [trusted=yes] https://mirror.example.com/mirror/apt ./" > /etc/apt/sources.list.d/mirror.list && apt-get -qq -o Dir::Etc::sourcelist=sources.list.d/mirror.list -o Dir::Etc::sourceparts=- update && apt-get -qq -y -o Dir::Etc::sourcelist=sources.list.d/mirror.list -o Dir::Etc::sourceparts=- install spacetest >/dev/null && cat /opt/spacetest', /from the mirror/))
test("67 Node's fetch", () => works('node -e "fetch(\'https://allowed.example.com/\').then((r) => r.text()).then(console.log)"', /"host":"allowed\.example\.com"/))
test('67 Python requests', () => works('PYTHONPATH=/root/pip.whl python3 -c "from pip._vendor import requests; print(requests.get(\'https://allowed.example.com/\').text)"', /"host":"allowed\.example\.com"/))
for (const scheme of ['ws', 'wss'])
  test(`67 ${scheme}: WebSocket`, () => works(`node -e "
const { WebSocket } = require('ws')
const one = new WebSocket('${scheme}://allowed.example.com/')
let count = 0
one.on('open', () => { for (let i = 0; i < 100; ++i) one.send('word ' + i) })
one.on('message', () => { if (++count === 100) { console.log('all', count); one.close() } })"`, /all 100/))
test('67 gRPC, a call and a stream', () => works(`node -e "
const grpc = require('@grpc/grpc-js'), fs = require('fs')
const one = new grpc.Client('grpc.example.com:50051', grpc.credentials.createSsl(fs.readFileSync('/usr/local/share/ca-certificates/tests.crt')))
one.makeUnaryRequest('/space.Test/Say', Buffer.from, Buffer.from, Buffer.from('it'), (error, answer) => {
  console.log(error || String(answer))
  let count = 0
  one.makeServerStreamRequest('/space.Test/Count', Buffer.from, Buffer.from, Buffer.from('')).on('data', () => ++count).on('end', () => { console.log('streamed', count); one.close() })
})"`, /heard it\nstreamed 1000/))

test('67 1 GiB down and 1 GiB up', async () => {
  await works(`curl -sS http://allowed.example.com/bytes?n=${gib} | wc -c`, new RegExp(`^${gib}$`, 'm'))
  await works(`head -c ${gib} /dev/zero | curl -sS -T - -X POST http://allowed.example.com/count`, new RegExp(`^${gib}$`, 'm'))
  const { counters } = await egress(guest)
  assert.ok(counters.bytes_in >= gib && counters.bytes_out >= gib, JSON.stringify(counters))
})
test('67 64 MiB of TLS each way', async () => {
  const size = 2 ** 26
  await works(`curl -sS https://allowed.example.com/bytes?n=${size} | wc -c`, new RegExp(`^${size}$`, 'm'))
  await works(`head -c ${size} /dev/zero | curl -sS -T - -X POST https://allowed.example.com/count`, new RegExp(`^${size}$`, 'm'))
})

test('66 a guest whose clock is a month behind connects again after a resume, which sets it', async () => {
  await guest.run('date -s "$(date -d "-30 days")"')
  assert.notEqual((await guest.run(`${env}curl -sS https://allowed.example.com/`)).exitCode, 0, 'control: the certificate is not valid yet')
  await guest.sandbox.pause()
  await guest.sandbox.connect({ timeoutMs: 1_800_000 })
  await works('curl -sS https://allowed.example.com/', /"host":"allowed\.example\.com"/)
})
