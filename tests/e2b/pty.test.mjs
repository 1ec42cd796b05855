// Terminals through the SDK: everything beyond size, input and exit (commands.test.mjs).
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { failure, Sandbox, sdk, until } from './sdk.mjs'

let sandbox
before(async () => { sandbox = await Sandbox.create({ timeoutMs: 900_000 }) })
after(async () => { await sandbox?.kill() })

const bytes = (text) => new TextEncoder().encode(text)

// A terminal and what it has shown so far.
class Screen {
  text = ''
  onData = (data) => { this.text += this.decoder.decode(data, { stream: true }) }
  decoder = new TextDecoder()
  static async open(options = {}) {
    const screen = new Screen()
    screen.handle = await sandbox.pty.create({ cols: 100, rows: 30, timeoutMs: 0, onData: screen.onData, ...options })
    return screen
  }
  static async attach(pid) {
    const screen = new Screen()
    screen.handle = await sandbox.pty.connect(pid, { timeoutMs: 0, onData: screen.onData })
    return screen
  }
  type(text) { return sandbox.pty.sendInput(this.handle.pid, bytes(text)) }
  shows(what) { return until(() => (what instanceof RegExp ? what.test(this.text) : this.text.includes(what)), `${what} in: ${this.text.slice(-2000)}`) }
  async leave(code = 0) {
    await this.type(`exit ${code}\n`)
    return code === 0 ? (await this.handle.wait()).exitCode : (await failure(this.handle.wait())).exitCode
  }
}

test('user, folder and environment are those asked for; the SDK sets TERM and the language', async () => {
  const screen = await Screen.open({ user: 'root', cwd: '/usr', envs: { MARK: 'here' } })
  await screen.type('echo "[$(id -un):$(pwd):$MARK:$TERM:$LANG]"\n')
  await screen.shows('[root:/usr:here:xterm-256color:C.UTF-8]')
  assert.equal(await screen.leave(3), 3)
})

test('it is the controlling terminal: Ctrl+C interrupts, Ctrl+Z stops, Ctrl+D ends', async () => {
  const screen = await Screen.open()
  await screen.type('sleep 620; echo "code=$?"\n')
  await until(async () => (await sandbox.commands.run('pgrep -fx "sleep 620" || true')).stdout !== '', 'the sleep runs')
  await screen.type('\x03')
  await screen.shows(/\^C[^]*\$ $/)  // the shell reads by itself again
  await screen.type('echo "after=$?"\n')
  await screen.shows(/after=130\r\n[^]*\$ $/)
  await screen.type('cat\n')
  await screen.type('to the cat\n')
  await screen.shows(/to the cat\r\nto the cat/)
  await screen.type('\x1a')
  await screen.shows(/Stopped[^]*\$ $/)
  await screen.type("PS1='prompt> '; kill -9 %1; wait; echo gone-$((1+1))\n")
  await screen.shows(/gone-2\r\n[^]*prompt> $/)
  screen.handle.wait().catch(() => {})  // it leaves with the code of its last command
  await screen.type('\x04')
  await until(() => screen.handle.exitCode !== undefined, 'the shell left')
})

test('a resize reaches the program as a signal', async () => {
  const screen = await Screen.open()
  await screen.type("trap 'echo \"now $(stty size)\"' WINCH; echo ready-$((40+2))\n")
  await screen.shows('ready-42')
  await sandbox.pty.resize(screen.handle.pid, { cols: 133, rows: 47 })
  await screen.type('\n')
  await screen.shows('now 47 133')
  assert.equal(await screen.leave(), 0)
})

test('T51: a terminal survives its client; who comes back sees what happened meanwhile and goes on', async () => {
  const screen = await Screen.open()
  await screen.type('export KEPT=value; echo before-$((1+1))\n')
  await screen.shows('before-2')
  await screen.type('(sleep 1; echo mean-$((10+7))-while; touch /tmp/pty-wrote) &\n')
  await screen.handle.disconnect()
  await until(async () => (await sandbox.commands.run('ls /tmp/pty-wrote 2>/dev/null || true')).stdout !== '', 'the job has written')
  assert.ok((await sandbox.commands.list()).some((p) => p.pid === screen.handle.pid))
  const back = await Screen.attach(screen.handle.pid)
  await back.shows('mean-17-while')
  assert.ok(!screen.text.includes('mean-17-while'))
  await back.type('echo "[$KEPT]"\n')
  await back.shows('[value]')
  assert.equal(await back.leave(), 0)
})

test('two clients of one terminal see the same, and both type', async () => {
  const one = await Screen.open()
  const two = await Screen.attach(one.handle.pid)
  await one.type('echo from-$((1)) one\n')
  await two.type('echo from-$((2)) two\n')
  for (const screen of [one, two]) { await screen.shows('from-1 one\r\n'); await screen.shows('from-2 two\r\n') }
  await one.type('exit 0\n')
  assert.equal((await one.handle.wait()).exitCode, 0)
  assert.equal((await two.handle.wait()).exitCode, 0)
})

test('a megabyte through a terminal arrives whole and in order, whole characters too', async () => {
  const screen = await Screen.open()
  await screen.type("stty -echo; python3 -c \"for i in range(60000): print('ł%d' % i)\"; echo all-$((90+9))\n")
  await until(() => screen.text.includes('all-99'), 'the end', 120_000)
  const numbers = [...screen.text.matchAll(/ł(\d+)\r\n/g)].map((match) => Number(match[1]))
  assert.equal(numbers.length, 60_000)
  numbers.forEach((number, i) => { if (number !== i) assert.fail(`line ${i} is ${number}`) })
  assert.equal(await screen.leave(), 0)
})

test('a full-screen program finds a terminal', async () => {
  const screen = await Screen.open()
  await screen.type('python3 -c "import os; print([os.isatty(fd) for fd in range(3)], os.get_terminal_size().columns)"\n')
  await screen.shows('[True, True, True] 100')
  await screen.type('seq 500 | less\n')
  await screen.shows(/\n29\r/)
  await screen.type('q')
  await screen.type('echo left-$((3*3))\n')
  await screen.shows('left-9')
  assert.equal(await screen.leave(), 0)
})

test('a job of a shell that left does not hold the terminal open', async () => {
  const screen = await Screen.open()
  await screen.type("setsid sleep 621 & disown; exit\n")
  assert.equal((await screen.handle.wait()).exitCode, 0)
  assert.notEqual((await sandbox.commands.run('pgrep -fx "sleep 621"')).stdout, '')
  await sandbox.commands.run('pkill -fx "sleep 621"')
})

test('timeoutMs ends a terminal; input to one that ended says so', async () => {
  const screen = await Screen.open({ timeoutMs: 1_500 })
  assert.ok(await failure(screen.handle.wait()) instanceof sdk.TimeoutError)
  await until(async () => !(await sandbox.commands.list()).some((p) => p.pid === screen.handle.pid), 'it is gone')
  assert.ok(await failure(screen.type('x')) instanceof sdk.NotFoundError)
  assert.equal(await sandbox.pty.kill(screen.handle.pid), false)
})

test('killing one terminal leaves the others', async () => {
  const [one, two] = [await Screen.open(), await Screen.open()]
  assert.equal(await sandbox.pty.kill(one.handle.pid), true)
  await failure(one.handle.wait())
  await two.type('echo alive-$((5+5))\n')
  await two.shows('alive-10')
  assert.equal(await two.leave(), 0)
})
