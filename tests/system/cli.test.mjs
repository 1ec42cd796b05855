// The command line as a person or a script uses it.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { state, run } from './machine.mjs'

const program = `${process.env.SPACE_BUILD}/space`
const space = (args, input) => spawnSync(program, args, { encoding: 'utf8', input })

test('run prints the output and throws the sandbox away', () => {
  const result = space(['run', '--', 'python3', '-c', 'print(6*7)'])
  assert.deepEqual([result.status, result.stdout], [0, '42\n'], result.stderr)
  assert.equal(JSON.parse(space(['ls', '--json']).stdout).length, 0)
})

test("run exits with the command's own code", () => {
  assert.equal(space(['run', '--', 'sh', '-c', 'exit 5']).status, 5)
})

test('create, ls, info, exec with input, cwd, user and environment, kill', () => {
  const id = space(['create', '--metadata', 'who=cli']).stdout.trim()
  assert.match(id, /^i[a-z0-9]{19}$/)
  assert.match(space(['ls']).stdout, new RegExp(`${id} +running`))
  assert.equal(JSON.parse(space(['info', id, '--json']).stdout).metadata.who, 'cli')
  assert.ok(!space(['info', id]).stdout.includes('envdAccessToken'))
  assert.equal(space(['exec', id, '--', 'cat'], 'piped\n').stdout, 'piped\n')
  assert.equal(space(['exec', '-w', '/usr', '-e', 'A=b=c', id, '--', 'sh', '-c', 'pwd; echo $A; id -un']).stdout, '/usr\nb=c\nuser\n')
  assert.equal(space(['exec', '-u', 'root', id, '--', 'id', '-u']).stdout, '0\n')
  const failed = space(['exec', id, '--', 'no-such-program'])
  assert.notEqual(failed.status, 0)
  assert.match(failed.stderr, /no-such-program/)
  assert.equal(space(['exec', id, '--', 'sh', '-c', 'kill -TERM $$']).status, 143)
  assert.match(space(['kill', id]).stdout, /killed/)
  assert.equal(space(['kill', id]).status, 1)
})

test('shell gives a terminal', async () => {
  const id = space(['create']).stdout.trim()
  const shell = spawn('script', ['-qec', `${program} shell ${id}`, '/dev/null'], { stdio: ['pipe', 'pipe', 'inherit'] })
  let screen = ''
  shell.stdout.on('data', (data) => {
    screen += data
    if (screen.includes('$') && !shell.typed) { shell.typed = true; shell.stdin.write('echo $((6*7)); tty; exit 3\n') }
  })
  const code = await new Promise((resolve) => shell.on('exit', resolve))
  assert.match(screen, /42\r?\n/)
  assert.match(screen, /\/dev\/pts\//)
  assert.equal(code, 3)
  space(['kill', id])
})

test('mistakes get a sentence and exit code 2; help teaches', () => {
  assert.equal(space(['exec']).status, 2)
  assert.equal(space(['frobnicate']).status, 2)
  assert.match(space(['create', '--metadata', 'novalue']).stderr, /NAME=VALUE/)
  const keyless = spawnSync(program, ['ls'], { encoding: 'utf8', env: { HOME: '/nonexistent' } })
  assert.equal(keyless.status, 2)
  assert.match(keyless.stderr, /space up/)
  const away = space(['--api-url', 'http://127.0.0.1:9', 'ls'])
  assert.equal(away.status, 1)
  assert.match(away.stderr, /space up -d/)
  assert.match(space(['--help']).stdout, /python3/)
  const commands = space(['__complete', '']).stdout.trim().split('\n').map((line) => line.split('\t')[0])
  assert.ok(commands.length > 20, commands.join(' '))
  for (const command of commands) {
    const help = space([command, '--help'])
    assert.equal(help.status, 0)
    assert.match(help.stdout, /Examples?:/, command)
  }
})

test('doctor finds nothing bad here, and up again says it is up', () => {
  const doctor = space(['doctor', '--json', '--state', state, '--run', run])
  const bad = JSON.parse(doctor.stdout).filter((finding) => finding.verdict === 'bad')
  assert.deepEqual(bad, [])
  assert.match(space(['up', '-d', '--state', state, '--run', run]).stdout, /already up/)
})

test('templates are listed', () => {
  const templates = JSON.parse(space(['template', 'ls', '--json']).stdout)
  assert.ok(templates.some((template) => template.name === 'base' && /^[0-9a-f]{64}$/.test(template.digest)))
})
