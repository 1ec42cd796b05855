// A wire that can be cut: a TCP proxy in front of the API, for what a client does when its network goes away.
import net from 'node:net'

export class Wire {
  static async to(url) {
    const wire = new Wire()
    const { hostname, port } = new URL(url)
    wire.pairs = new Set()
    wire.server = net.createServer((client) => wire.#join(client, net.connect(Number(port), hostname)))
    await new Promise((resolve) => wire.server.listen(0, '127.0.0.1', resolve))
    wire.url = `http://127.0.0.1:${wire.server.address().port}`
    return wire
  }

  upMax = Infinity // bytes of one connection from the client, then it stands still
  downMax = Infinity // and to the client
  stalled = false // a connection has met its limit

  #join(client, server) {
    const pair = { client, server }
    this.pairs.add(pair)
    const gone = () => { client.destroy(); server.destroy(); this.pairs.delete(pair) }
    for (const socket of [client, server]) socket.on('error', gone).on('close', gone)
    this.#copy(client, server, () => this.upMax)
    this.#copy(server, client, () => this.downMax)
  }

  #copy(from, to, limit) {
    let passed = 0
    from.on('data', (data) => {
      const piece = data.subarray(0, Math.max(0, limit() - passed))
      passed += piece.length
      if (piece.length < data.length) { this.stalled = true; from.pause() }
      if (piece.length > 0 && !to.write(piece)) { from.pause(); to.once('drain', () => from.resume()) }
    })
    from.on('end', () => to.end())
  }

  // Every connection there is breaks; new ones work.
  cut() {
    for (const { client, server } of this.pairs) {
      // A socket that is being ended cannot be reset: Node would leave its handle open, and the file would never end.
      if (client.writableEnded) client.destroy()
      else client.resetAndDestroy()
      server.destroy()
    }
  }

  async close() {
    this.cut()
    await new Promise((resolve) => this.server.close(resolve))
  }
}
