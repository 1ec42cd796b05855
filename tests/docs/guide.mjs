// A guide is a Markdown file whose fenced blocks are executed as a reader would, top to bottom, in one shell:
//
//   ```sh     run in that shell (variables, functions and the working folder stay); a command that fails fails the block
//   ```js     saved under the name in its first line, `// NAME.mjs`; a later sh block must run it
//   ```text   what the sh block before it prints, standard error included; `…` stands for anything within a line, and
//             alone on a line for any lines
//
// A block of another language, or of none, is an error: what cannot be run has no place in a guide.
import { spawn } from 'node:child_process'
import fs from 'node:fs'

export function parse(text) {
  const blocks = []
  const problems = []
  let open
  text.split('\n').forEach((line, index) => {
    const fence = /^```(.*)$/.exec(line)
    if (!fence) return open?.lines.push(line)
    if (!open) return (open = { language: fence[1].trim(), line: index + 1, lines: [] })
    const block = { language: open.language, line: open.line, code: open.lines.map((l) => `${l}\n`).join('') }
    open = undefined
    const before = blocks.at(-1)
    if (block.language === 'text') {
      if (before?.language !== 'sh' || before.expected !== undefined) problems.push(`line ${block.line}: a text block belongs to the sh block before it`)
      else before.expected = block.code
    } else if (block.language === 'js') {
      const name = /^\/\/ ([\w-]+\.mjs)\n/.exec(block.code)?.[1]
      if (name) blocks.push({ ...block, name })
      else problems.push(`line ${block.line}: a js block begins with // NAME.mjs`)
    } else if (block.language === 'sh') {
      blocks.push(block)
    } else {
      problems.push(`line ${block.line}: a block of language '${block.language}' cannot be run`)
    }
  })
  if (open) problems.push(`line ${open.line}: a block without an end`)
  blocks.forEach((block, at) => {
    const runs = (other) => other.language === 'sh' && other.code.includes(block.name)
    if (block.name && !blocks.slice(at).some(runs)) problems.push(`line ${block.line}: nothing runs ${block.name}`)
  })
  return { blocks, problems }
}

// undefined when `actual` is what `expected` describes, else the difference.
export function difference(expected, actual) {
  const escape = (part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  const pattern = expected.trimEnd().split('\n').map((line) => (line === '…' ? '(?:.*\n)*' : `${line.split('…').map(escape).join('.*')}\n`))
  return new RegExp(`^${pattern.join('')}$`).test(`${actual.trimEnd()}\n`) ? undefined : `expected:\n${expected}printed:\n${actual}`
}

// One shell for one guide.
export class Reader {
  constructor(folder, env) {
    this.folder = folder
    this.count = 0
    // Not even a killed test leaves a shell behind, which would hold its mounts.
    this.shell = spawn('setpriv', ['--pdeathsig', 'KILL', 'bash', '--noprofile', '--norc'], { cwd: folder, env, detached: true, stdio: ['pipe', 'inherit', 'inherit', 'pipe'] })
    this.ended = new Promise((resolve) => this.shell.on('exit', resolve))
    this.shell.stdin.on('error', () => {})
    this.shell.stdin.write("exec 4>/dev/null\nset -E -o pipefail\ntrap 'echo \"line $LINENO: $BASH_COMMAND: exit code $?\" >&4' ERR\n")
  }

  // Resolves with what went wrong, one text each; empty: nothing.
  async run(block, limitMs = 180_000) {
    if (block.name) {
      fs.writeFileSync(`${this.folder}/${block.name}`, block.code)
      return []
    }
    const base = `${this.folder}/.block-${this.count += 1}`
    fs.writeFileSync(`${base}.sh`, block.code)
    const done = new Promise((resolve) => this.shell.stdio[3].once('data', resolve))
    this.shell.stdin.write(`. ${base}.sh </dev/null >${base}.out 2>&1 4>${base}.failed; echo done >&3\n`)
    let timer
    const late = new Promise((resolve) => (timer = setTimeout(() => resolve('late'), limitMs)))
    const how = await Promise.race([done, late, this.ended.then(() => 'ended')])
    clearTimeout(timer)
    const output = fs.readFileSync(`${base}.out`, 'utf8')
    const failed = fs.readFileSync(`${base}.failed`, 'utf8').split('\n').filter(Boolean)
    if (how === 'late') failed.push(`not done after ${limitMs / 1000} s`)
    if (how === 'ended') failed.push('it ended the shell')
    if (failed.length) return failed.map((text) => `${text}\nprinted:\n${output}`)
    const other = block.expected === undefined ? undefined : difference(block.expected, output)
    return other === undefined ? [] : [other]
  }

  // Ends the shell and what it left in the background.
  async close() {
    try { process.kill(-this.shell.pid, 'SIGKILL') } catch { /* it ended by itself */ }
    await this.ended
  }
}
