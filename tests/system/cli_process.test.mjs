// Programs, terminals, files watched and ports of virtual machines, from the command line.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import http from 'node:http'
import { after, before, test } from 'node:test'
import { apiUrl, until } from '../e2b/sdk.mjs'
import { output, program, space, start, terminal } from './cli.mjs'
import { Wire } from './wire.mjs'

let id
const inside = (command) => output('exec', '--no-stdin', id, '--', 'sh', '-ec', command)
const listed = () => JSON.parse(output('ps', id, '--json'))

before(() => { id = output('create').trim() })
after(() => space(['kill', id]))

test('detached programs are listed, attached to and killed', async () => {
  const script = 'i=0; while test ! -e /tmp/stop; do i=$((i+1)); echo line $i; sleep 0.1; done; exit 4'
  const pid = output('exec', '-d', '--tag', 'ticker', id, '--', 'sh', '-c', script).trim()
  assert.match(pid, /^\d+$/)
  assert.deepEqual(listed().map((p) => [String(p.pid), p.tag, p.command[0]]), [[pid, 'ticker', 'sh']])
  assert.match(output('ps', id), new RegExp(`${pid} +ticker +sh -c`))
  const [byTag, byPid] = [start(['attach', id, 'ticker']), start(['attach', id, pid])]
  await byTag.shows(/line \d/)
  await byPid.shows(/line \d/)
  inside('touch /tmp/stop')
  assert.deepEqual([await byTag.ended, await byPid.ended], [4, 4])

  const sleeper = output('exec', '-d', '--json', id, '--', 'sleep', '600')
  const attached = start(['attach', id, String(JSON.parse(sleeper).pid)])
  await until(() => listed().length === 1, 'only sleep runs')
  output('kill-process', id, String(JSON.parse(sleeper).pid), '-s', 'KILL')
  assert.equal(await attached.ended, 137)
  await until(() => listed().length === 0, 'nothing runs')
  const late = space(['kill-process', id, '999999'])
  assert.equal(late.status, 1)
  assert.match(late.stderr, /not found/)
  assert.equal(space(['attach', id, '0']).status, 2)
})

test('a shell follows the size of its window', async () => {
  const shell = terminal(['shell', id])
  await shell.shows('$')
  shell.type('stty size\r')
  await shell.shows('24 80')
  shell.size(123, 45)
  await until(() => { shell.type('stty size\r'); return shell.text.includes('45 123') }, 'the new size')
  shell.type('exit 7\r')
  assert.equal(await shell.ended, 7)
})

test('a shell outlives its connection', async () => {
  const wire = await Wire.to(apiUrl)
  const shell = terminal(['shell', id], { SPACE_API_URL: wire.url })
  await shell.shows('$')
  shell.type('remembered=before; echo $((6*7))\r')
  await shell.shows('42')
  wire.cut()
  await shell.shows('connected again')
  shell.type('echo "$remembered and after"\r')
  await shell.shows(/\rbefore and after/)
  shell.type('exit 5\r')
  assert.equal(await shell.ended, 5)
  await wire.close()
})

test('Ctrl-P Ctrl-Q leaves a shell running, and back', async () => {
  const shell = terminal(['shell', id])
  await shell.shows('$')
  shell.type('kept=yes\r')
  shell.type('\x10\x11')
  assert.equal(await shell.ended, 0)
  const tag = /space attach \S+ (shell-\w+)/.exec(shell.text)[1]
  assert.ok(listed().some((p) => p.tag === tag))
  const back = terminal(['shell', id, '--attach', tag])
  await until(() => { back.type('echo "kept: $kept"\r'); return back.text.includes('kept: yes') }, 'the same shell')
  back.type('\rexit\r')
  await back.ended
})

test('exec -it is a terminal; -i takes one line by line; --no-stdin takes nothing', async () => {
  const python = terminal(['exec', '-it', id, '--', 'python3', '-q'])
  await python.shows('>>>')
  python.type('import sys; print(sys.stdin.isatty())\r')
  await python.shows('True')
  python.type('exit(3)\r')
  assert.equal(await python.ended, 3)
  assert.equal(space(['exec', '-i', id, '--', 'sh', '-c', 'test -t 0 || cat'], { input: 'line\n' }).stdout, 'line\n')
  assert.equal(space(['exec', '--no-stdin', id, '--', 'cat'], { input: 'unread\n' }).stdout, '')
})

test('watch tells of files, in new folders too', async () => {
  inside('mkdir -p /tmp/watched')
  const watch = start(['watch', id, '/tmp/watched', '-r'])
  const json = start(['watch', id, '/tmp/watched', '--json'])
  await watch.shows('watching')
  await until(() => { inside('touch /tmp/watched/first'); return json.text.includes('"name":"first"') }, 'a line of JSON')
  inside('mkdir /tmp/watched/sub; echo text > /tmp/watched/sub/new; rm /tmp/watched/sub/new')
  await watch.shows(/^create +sub\/new$/m)
  await watch.shows(/^remove +sub\/new$/m)
  for (const line of json.text.trim().split('\n')) assert.equal(typeof JSON.parse(line).event, 'string')
  await Promise.all([watch.stop(), json.stop()])
})

test('port-forward reaches a server that only the sandbox sees; url says how HTTP does', async () => {
  inside('mkdir -p /tmp/www; echo served > /tmp/www/page')
  output('exec', '-d', '--tag', 'www', '-w', '/tmp/www', id, '--', 'python3', '-m', 'http.server', '8123', '--bind', '127.0.0.1')
  const forward = start(['port-forward', id, '0:8123'])
  await forward.shows(/127\.0\.0\.1:\d+ -> /)
  const port = /127\.0\.0\.1:(\d+) -> /.exec(forward.text)[1]
  const page = () => fetch(`http://127.0.0.1:${port}/page`).then((answer) => answer.text()).catch(() => '')
  await until(async () => (await page()) === 'served\n', 'the page through the tunnel')
  const pages = await Promise.all(Array.from({ length: 8 }, page))
  assert.deepEqual(new Set(pages), new Set(['served\n']))

  const { url, curl } = JSON.parse(output('url', id, '8123', '--json'))
  assert.deepEqual(output('url', id, '8123').split('\n').slice(0, 2), [url, curl])
  const named = await new Promise((resolve, reject) => {
    http.get({ host: '127.0.0.1', port: new URL(apiUrl).port, path: '/page', headers: { Host: new URL(url).host } }, resolve).on('error', reject)
  })
  assert.equal(named.statusCode, 200)
  named.resume()
  const headers = Object.fromEntries([...curl.matchAll(/-H '([^:]+): ([^']+)'/g)].map(([, name, value]) => [name, value]))
  assert.equal(await (await fetch(`${curl.split(' ').at(-1)}page`, { headers })).text(), 'served\n')

  output('kill-process', id, 'www')
  await until(async () => (await page()) === '', 'the server is gone')
  await forward.shows('port is not open')
  assert.equal(await forward.stop('SIGINT'), 0)
  assert.match(space(['port-forward', id, 'web']).stderr, /LOCAL:REMOTE/)
})

test('bash completes commands, flags and live sandboxes', () => {
  const complete = (...words) => spawnSync('bash', ['-c', `
    source <("$1" completion bash); shift
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }; _space; printf '%s\\n' "\${COMPREPLY[@]}"`,
  'bash', program, program, ...words], { encoding: 'utf8' }).stdout.trim().split('\n')
  assert.deepEqual(complete('kill-'), ['kill-process'])
  assert.deepEqual(complete('exec', '--no'), ['--no-stdin'])
  assert.ok(complete('template', '').includes('build'))
  assert.deepEqual(complete('shell', id.slice(0, 8)), [id])
  assert.deepEqual(complete('cp', id.slice(0, 8)), [`${id}:`])
  assert.deepEqual(complete('completion', ''), ['bash', 'zsh', 'fish'])
  assert.deepEqual(complete('exec', id, '--', 'x'), [''])
  for (const shell of ['bash', 'zsh', 'fish']) assert.match(output('completion', shell), /__complete/)
})

test('the beginning of an id will do; a wrong one is told from close ones', () => {
  assert.equal(JSON.parse(output('info', id.slice(0, 10), '--json')).sandboxID, id)
  const wrong = `${id.slice(0, -1)}${id.endsWith('0') ? '1' : '0'}`
  const { status, stderr } = space(['exec', wrong, '--', 'true'])
  assert.equal(status, 1)
  assert.match(stderr, new RegExp(`did you mean ${id}`))
})
