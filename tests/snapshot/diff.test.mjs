// Which files differ between two snapshots: read in a virtual machine made for that, whose guest is as hostile as any.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, before, test } from 'node:test'
import { quietTable, settled } from '../system/machine.mjs'
import { Branches } from './branches.mjs'
import { inFresh, stdout } from './sandboxes.mjs'

const here = new Branches()
let table
before(async () => { table = await quietTable() })
after(async () => { await settled(table) })

const under = (changes) => changes.filter((one) => one.path.startsWith('/home/user')).map((one) => `${one.change} ${one.path}`).sort()
const diff = (sandbox, from, to) => here.ask('GET', sandbox, `/diff?from=${from.number}&to=${to.number}`)

test('added, removed and changed files of three states; none between equal ones; a name that would deceive is one name', () => inFresh(async (sandbox) => {
  const step = async (script) => { await stdout(sandbox, `set -e; cd /home/user; ${script}; sync`); return here.snapshot(sandbox, { kind: 'disk' }) }
  const one = await step('mkdir d; echo a > d/stays; echo b > changes; echo c > goes; echo same > same; ln -s same link; touch -d @1000 back')
  const two = await step("echo bb > changes; rm goes; echo n > 'new\n\u001b[2JD forged'; mkdir e; echo f > e/f; ln -sf changes link; chmod 600 d/stays")
  const three = await step('rm -r e; mv changes moved')
  const full = await here.snapshot(sandbox)

  const first = JSON.parse(execFileSync(`${process.env.SPACE_BUILD}/space`, ['diff', sandbox.sandboxId, String(one.number), String(two.number), '--json'], { encoding: 'utf8' }))
  console.log(`# ${first.changes.length} changes: ${under(first.changes).map((text) => JSON.stringify(text)).join(' ')}`)
  assert.deepEqual([first.truncated, first.approximate], [false, false])
  assert.deepEqual(under(first.changes), ['added /home/user/e', 'added /home/user/e/f', 'added /home/user/new\n\u001b[2JD forged', 'changed /home/user/changes', 'changed /home/user/d/stays',
    'changed /home/user/link', 'removed /home/user/goes'].sort())
  assert.deepEqual(under((await diff(sandbox, two, three)).changes), ['added /home/user/moved', 'removed /home/user/changes', 'removed /home/user/e', 'removed /home/user/e/f'].sort())
  assert.deepEqual(under((await diff(sandbox, three, full)).changes), [])

  for (const [query, status] of [['from=1', 400], [`from=${one.number}&to=999`, 404], ['from=x&to=2', 400], ['', 400]]) {
    const answer = await here.call('GET', sandbox, `/diff?${query}`)
    assert.equal(answer.status, status, `${query}: ${answer.status} ${(await answer.json()).message}`)
  }
  await stdout(sandbox, 'echo on')
}))
