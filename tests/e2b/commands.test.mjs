// Commands and terminals, through the SDK, in a VM.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { CommandExitError, daemonOnly, failure, newest, Sandbox, sleep, TimeoutError, until } from './sdk.mjs'

let sandbox
before(async () => { sandbox = await Sandbox.create({ timeoutMs: 900_000, envs: { FROM_CREATE: 'yes', OVERRIDE: 'create' } }) })
after(async () => { await sandbox?.kill() })

test('run gives stdout, stderr and exit code 0', async () => {
  const result = await sandbox.commands.run('echo out; echo err >&2')
  assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['out\n', 'err\n', 0])
})

test("python computes 42", async () => {
  assert.equal((await sandbox.commands.run("python3 -c 'print(6*7)'")).stdout, '42\n')
})

test('a failing command throws CommandExitError with its code and output', async () => {
  const error = await failure(sandbox.commands.run('echo partial; exit 3'))
  assert.ok(error instanceof CommandExitError)
  assert.deepEqual([error.exitCode, error.stdout], [3, 'partial\n'])
})

test('a command that kills itself reports a signal, not success', async () => {
  const error = await failure(sandbox.commands.run('kill -9 $$'))
  assert.ok(error instanceof CommandExitError)
  assert.notEqual(error.exitCode, 0)
})

test('environment: sandbox variables, request wins, nothing else leaks in', async () => {
  const result = await sandbox.commands.run('echo $FROM_CREATE $OVERRIDE $HOME $USER $E2B_SANDBOX', { envs: { OVERRIDE: 'request' } })
  assert.equal(result.stdout, `${daemonOnly ? '' : 'yes '}request /home/user user true\n`)  // who knows no API knows no variables
})

test('cwd: absolute, relative to home, missing is an error', async () => {
  assert.equal((await sandbox.commands.run('pwd', { cwd: '/usr' })).stdout, '/usr\n')
  await sandbox.commands.run('mkdir -p ~/sub')
  assert.equal((await sandbox.commands.run('pwd', { cwd: 'sub' })).stdout, '/home/user/sub\n')
  assert.match((await failure(sandbox.commands.run('pwd', { cwd: '/nope' }))).message, /nope/)
})

test('user: default is user, root on request, unknown is refused', async () => {
  assert.equal((await sandbox.commands.run('id -un')).stdout, 'user\n')
  assert.equal((await sandbox.commands.run('id -un', { user: 'root' })).stdout, 'root\n')
  assert.equal((await sandbox.commands.run('sudo -n id -u')).stdout, '0\n')
  assert.match((await failure(sandbox.commands.run('id', { user: 'nobody-here' }))).message, /nobody-here/)
})

test('timeoutMs kills the command on the server', async () => {
  const error = await failure(sandbox.commands.run('sleep 601', { timeoutMs: 1_500 }))
  assert.ok(error instanceof TimeoutError, String(error))
  await until(async () => (await sandbox.commands.run('pgrep -fx "sleep 601" || true')).stdout === '' || (await sandbox.commands.list()).every((p) => !p.args.join(' ').includes('sleep 601')), 'the command is gone from the table')
})

test('output arrives while the command runs', async () => {
  let seen = ''
  const handle = await sandbox.commands.run('echo first; read line; echo "second $line"', { background: true, stdin: true, onStdout: (data) => { seen += data } })
  await until(() => seen === 'first\n', 'the first line')
  await sandbox.commands.sendStdin(handle.pid, 'go\n')
  assert.equal((await handle.wait()).stdout, 'first\nsecond go\n')
})

test('stdin is closed unless asked for: a reader sees the end', async () => {
  assert.equal((await sandbox.commands.run('cat; echo done')).stdout, 'done\n')
})

if (newest) {
  test('closeStdin ends a reader', async () => {
    const handle = await sandbox.commands.run('cat', { background: true, stdin: true })
    await handle.sendStdin('line\n')
    await handle.closeStdin()
    assert.equal((await handle.wait()).stdout, 'line\n')
  })
}

test('background: list shows it, another handle attaches and gets its exit', async () => {
  const handle = await sandbox.commands.run('read x; echo "got $x"; exit 7', { background: true, stdin: true })
  assert.ok((await sandbox.commands.list()).some((p) => p.pid === handle.pid))
  const second = await sandbox.commands.connect(handle.pid)
  await sandbox.commands.sendStdin(handle.pid, 'it\n')
  const [a, b] = await Promise.all([failure(handle.wait()), failure(second.wait())])
  assert.deepEqual([a.exitCode, b.exitCode, b.stdout], [7, 7, 'got it\n'])
})

test('a late connect to an exited command still gets its exit', async () => {
  const handle = await sandbox.commands.run('exit 5', { background: true })
  assert.equal((await failure(handle.wait())).exitCode, 5)
  const late = await sandbox.commands.connect(handle.pid)
  assert.equal((await failure(late.wait())).exitCode, 5)
})

test('disconnecting leaves the command running', async () => {
  const handle = await sandbox.commands.run('sleep 602', { background: true, timeoutMs: 0 })
  await handle.disconnect()
  await sleep(200)
  assert.ok((await sandbox.commands.list()).some((p) => p.pid === handle.pid))
  assert.equal(await sandbox.commands.kill(handle.pid), true)
})

test('kill ends a command; killing the unknown answers false', async () => {
  const handle = await sandbox.commands.run('sleep 603', { background: true, timeoutMs: 0 })
  assert.equal(await handle.kill(), true)
  const error = await failure(handle.wait())
  assert.ok(error instanceof CommandExitError)
  assert.equal(await sandbox.commands.kill(999_999), false)
})

test('10 MB of output arrive whole and in order', async () => {
  const result = await sandbox.commands.run("python3 -c \"import sys; [sys.stdout.write('%09d\\n' % i) for i in range(1048576)]\"", { timeoutMs: 0, requestTimeoutMs: 0 })
  assert.equal(result.stdout.length, 10 * 1048576)
  const lines = result.stdout.split('\n')
  for (let i = 0; i < 1048576; i += 1) if (Number(lines[i]) !== i) assert.fail(`line ${i} is ${lines[i]}`)
})

test('characters split between two writes arrive whole', async () => {
  const script = "import sys,time\nb='żółć→日本🙂'.encode()\nfor i in range(len(b)):\n  sys.stdout.buffer.write(b[i:i+1]); sys.stdout.buffer.flush(); time.sleep(0.01)"
  await sandbox.files.write('/tmp/split.py', script)
  assert.equal((await sandbox.commands.run('python3 /tmp/split.py')).stdout, 'żółć→日本🙂')
})

test('thirty commands at once each get their own output', async () => {
  const results = await Promise.all(Array.from({ length: 30 }, (_, i) => sandbox.commands.run(`echo ${i}; exit 0`)))
  results.forEach((result, i) => assert.equal(result.stdout, `${i}\n`))
})

test('a terminal: size, input, resize, exit', async () => {
  let screen = ''
  const decoder = new TextDecoder()
  const terminal = await sandbox.pty.create({ cols: 91, rows: 31, onData: (data) => { screen += decoder.decode(data, { stream: true }) }, timeoutMs: 0 })
  const type = (text) => sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode(text))
  await type('stty size\n')
  await until(() => screen.includes('31 91'), `the size in: ${screen}`)
  await sandbox.pty.resize(terminal.pid, { cols: 120, rows: 40 })
  await type('stty size; echo TERM=$TERM\n')
  await until(() => screen.includes('40 120') && screen.includes('TERM=xterm-256color'), `the new size in: ${screen}`)
  await type('exit 0\n')
  assert.equal((await terminal.wait()).exitCode, 0)
})

test('a terminal is killed', async () => {
  const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {}, timeoutMs: 0 })
  assert.equal(await sandbox.pty.kill(terminal.pid), true)
  await failure(terminal.wait())
})
