// Sigstore's verifier, asked a question a line: is this checkpoint signed by that key, and is the entry in its tree?
const crypto = require('crypto')
const readline = require('readline')
const path = require('path')
const tlog = path.join(__dirname, '../node_modules/@sigstore/verify/dist/tlog')
const { verifyCheckpoint } = require(path.join(tlog, 'checkpoint.js'))
const { verifyMerkleInclusion } = require(path.join(tlog, 'merkle.js'))

const SPKI = Buffer.from('302a300506032b6570032100', 'hex')

function accepts({ note, index, hashes, entry, name, id, key }) {
  const publicKey = crypto.createPublicKey({
    key: Buffer.concat([SPKI, Buffer.from(key, 'hex')]), format: 'der', type: 'spki',
  })
  const asked = {
    canonicalizedBody: Buffer.from(entry, 'hex'),
    inclusionProof: {
      logIndex: index, hashes: hashes.map((each) => Buffer.from(each, 'hex')), checkpoint: { envelope: note },
    },
  }
  try {
    const checkpoint = verifyCheckpoint(asked, [{ logID: Buffer.from(id, 'hex'), baseURL: name, publicKey }])
    verifyMerkleInclusion(asked, checkpoint)
    return true
  } catch (error) {
    if (error.name !== 'VerificationError') throw error
    return false
  }
}

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  console.log(JSON.stringify(accepts(JSON.parse(line))))
})
