// Small mirrors for everyday tools, made from nothing: a git repository, a Debian archive, a Python index, an npm registry.
// `makeMirror(base)` fills a folder; what is under `base` (a URL) is that folder. `remove()` takes it away.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'

const run = (cwd, program, ...words) => execFileSync(program, words, { cwd, stdio: ['ignore', 'pipe', 'pipe'] })

function gitRepository(folder) {
  const work = path.join(folder, 'work')
  fs.mkdirSync(work)
  run(work, 'git', 'init', '-q', '-b', 'main')
  fs.writeFileSync(path.join(work, 'README'), 'from the mirror\n')
  run(work, 'git', 'add', '.')
  run(work, 'git', '-c', 'user.name=a', '-c', 'user.email=a@example.com', 'commit', '-qm', 'one')
  run(folder, 'git', 'clone', '-q', '--bare', 'work', 'project.git')
  run(path.join(folder, 'project.git'), 'git', 'update-server-info')
  fs.rmSync(work, { recursive: true })
}

function debianArchive(folder) {
  const archive = path.join(folder, 'apt'), tree = path.join(folder, 'tree')
  fs.mkdirSync(archive)
  fs.mkdirSync(path.join(tree, 'DEBIAN'), { recursive: true })
  fs.mkdirSync(path.join(tree, 'opt'))
  fs.writeFileSync(path.join(tree, 'opt/spacetest'), 'from the mirror\n')
  fs.writeFileSync(path.join(tree, 'DEBIAN/control'), 'Package: spacetest\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: one file\n')
  run(folder, 'dpkg-deb', '--root-owner-group', '-b', 'tree', path.join(archive, 'spacetest.deb'))
  fs.rmSync(tree, { recursive: true })
  const deb = fs.readFileSync(path.join(archive, 'spacetest.deb'))
  const fields = run(archive, 'dpkg-deb', '-f', 'spacetest.deb').toString()
  fs.writeFileSync(path.join(archive, 'Packages'), `${fields}Filename: ./spacetest.deb\nSize: ${deb.length}\nSHA256: ${createHash('sha256').update(deb).digest('hex')}\n\n`)
}

function pythonIndex(folder) {
  const index = path.join(folder, 'simple/spacetest')
  fs.mkdirSync(index, { recursive: true })
  const wheel = path.join(index, 'spacetest-1.0-py3-none-any.whl')
  run(folder, 'python3', '-c', `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    wheel.writestr("spacetest.py", "word = 'from the mirror'\\n")
    wheel.writestr("spacetest-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: spacetest\\nVersion: 1.0\\n")
    wheel.writestr("spacetest-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nGenerator: tests\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr("spacetest-1.0.dist-info/RECORD", "spacetest.py,,\\nspacetest-1.0.dist-info/METADATA,,\\nspacetest-1.0.dist-info/WHEEL,,\\nspacetest-1.0.dist-info/RECORD,,\\n")
`, wheel)
  fs.writeFileSync(path.join(index, 'index.html'), '<!DOCTYPE html><html><body><a href="spacetest-1.0-py3-none-any.whl">spacetest-1.0-py3-none-any.whl</a></body></html>')
}

function npmRegistry(folder, base) {
  const tree = path.join(folder, 'npm-tree/package')
  fs.mkdirSync(tree, { recursive: true })
  const manifest = { name: 'spacetest', version: '1.0.0', main: 'index.js' }
  fs.writeFileSync(path.join(tree, 'package.json'), JSON.stringify(manifest))
  fs.writeFileSync(path.join(tree, 'index.js'), 'module.exports = "from the mirror"\n')
  fs.mkdirSync(path.join(folder, 'npm'))
  run(path.join(folder, 'npm-tree'), 'tar', 'czf', path.join(folder, 'npm/spacetest-1.0.0.tgz'), 'package')
  fs.rmSync(path.join(folder, 'npm-tree'), { recursive: true })
  const integrity = `sha512-${createHash('sha512').update(fs.readFileSync(path.join(folder, 'npm/spacetest-1.0.0.tgz'))).digest('base64')}`
  fs.writeFileSync(path.join(folder, 'npm/spacetest'), JSON.stringify({
    name: 'spacetest', 'dist-tags': { latest: '1.0.0' },
    versions: { '1.0.0': { ...manifest, dist: { tarball: `${base}/npm/spacetest-1.0.0.tgz`, integrity } } },
  }))
}

export function makeMirror(base) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'space-egress-mirror.'))
  gitRepository(folder)
  debianArchive(folder)
  pythonIndex(folder)
  npmRegistry(folder, base)
  return {
    // Answers a request below the mirror's path; 404 for what is not there.
    serve(name, response) {
      let file = path.join(folder, path.normalize(`/${name}`))
      if (fs.existsSync(file) && fs.statSync(file).isDirectory()) file = path.join(file, 'index.html')
      if (!fs.existsSync(file)) { response.writeHead(404); return response.end('no\n') }
      const type = file.endsWith('.html') ? 'text/html' : file.endsWith('/npm/spacetest') ? 'application/json' : 'application/octet-stream'
      response.writeHead(200, { 'content-type': type, 'content-length': fs.statSync(file).size })
      fs.createReadStream(file).pipe(response)
    },
    remove: () => fs.rmSync(folder, { recursive: true }),
  }
}
