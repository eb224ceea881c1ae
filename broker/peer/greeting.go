package peer

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
)

// The greeting (docs/formats.md section 9):
//
//	acceptor: "QPEER" version nonce[32]
//	dialler:  kind, nonce[32], seed[16], len+id of the dialler, len+id of whom it wants, proof[32]
//	acceptor: result, seed[16], proof[32]
//
// A proof is HMAC-SHA256 with the token over a word for the side, both nonces, both ids, the kind and the side's seed, so that it is good for one stream in
// one direction. The token itself never travels.
const (
	greetingMagic   = "QPEER"
	greetingVersion = 1
	nonceLen        = 32
	seedLen         = 16
	maxID           = 255
)

// Kind says what a stream carries.
type Kind byte

// The kinds of streams.
const (
	Raft    Kind = 1 // raft's own calls
	Forward Kind = 2 // HTTP: commands and membership changes for the leader
	Ask     Kind = 3 // nothing: the greeting says whether the acceptor has heard of a cluster
)

// results of a greeting.
const (
	welcome   = 0
	badProof  = 1
	wrongNode = 2
	otherSeed = 3
	badKind   = 4
	noSeed    = 5
)

var errNoSeed = errors.New("it knows of a cluster and not of its seed yet: it has to reach a leader first")

var errProof = errors.New("it does not know the cluster's token, or has another one: QUEEN_RAFT_TOKEN must be the same on every node")

// refusal is the sentence for a result.
func refusal(result byte) error {
	switch result {
	case welcome:
		return nil
	case badProof:
		return errors.New("it refuses this node's token: QUEEN_RAFT_TOKEN must be the same on every node")
	case wrongNode:
		return errors.New("another node answers at that address")
	case otherSeed:
		return errors.New("it belongs to another cluster")
	case noSeed:
		return errNoSeed
	case badKind:
		return errors.New("it does not know this kind of stream: it may be of an older version")
	}
	return fmt.Errorf("it refuses the stream (%d)", result)
}

// hello is what the dialler says.
type hello struct {
	kind     Kind
	nonce    [nonceLen]byte
	seed     [seedLen]byte
	from, to string
}

func (h hello) proof(token string, side string, theirs [nonceLen]byte, seed [seedLen]byte) []byte {
	m := hmac.New(sha256.New, []byte(token))
	for _, part := range [][]byte{[]byte(side), theirs[:], h.nonce[:], {byte(h.kind), byte(len(h.from)), byte(len(h.to))}, []byte(h.from), []byte(h.to), seed[:]} {
		m.Write(part)
	}
	return m.Sum(nil)
}

// greet is the dialler's side. It returns the acceptor's seed.
func greet(c io.ReadWriter, token string, h hello) (seed [seedLen]byte, err error) {
	if len(h.from) > maxID || len(h.to) > maxID {
		return seed, fmt.Errorf("a node id of over %d bytes", maxID)
	}
	var first [len(greetingMagic) + 1 + nonceLen]byte
	if _, err := io.ReadFull(c, first[:]); errors.Is(err, io.EOF) {
		return seed, errors.New("it closed the stream without a word: it stops, or it waits for TLS, which all nodes speak (QUEEN_RAFT_TLS_CERT) or none")
	} else if err != nil {
		return seed, err
	}
	if string(first[:len(greetingMagic)]) != greetingMagic {
		return seed, errors.New("no queen node answers there")
	}
	if v := first[len(greetingMagic)]; v != greetingVersion {
		return seed, fmt.Errorf("it greets in version %d, this node in version %d", v, greetingVersion)
	}
	var theirs [nonceLen]byte
	copy(theirs[:], first[len(greetingMagic)+1:])
	if _, err := rand.Read(h.nonce[:]); err != nil {
		return seed, err
	}
	out := append([]byte{byte(h.kind)}, h.nonce[:]...)
	out = append(out, h.seed[:]...)
	for _, id := range []string{h.from, h.to} {
		out = append(append(out, byte(len(id))), id...)
	}
	if _, err := c.Write(append(out, h.proof(token, "dialler", theirs, h.seed)...)); err != nil {
		return seed, err
	}
	var last [1 + seedLen + sha256.Size]byte
	if _, err := io.ReadFull(c, last[:]); err != nil {
		return seed, err
	}
	if err := refusal(last[0]); err != nil {
		return seed, err
	}
	copy(seed[:], last[1:])
	if subtle.ConstantTimeCompare(last[1+seedLen:], h.proof(token, "acceptor", theirs, seed)) != 1 {
		return seed, errProof
	}
	if !sameSeed(seed, h.seed) {
		return seed, refusal(otherSeed)
	}
	return seed, nil
}

// answer is the acceptor's side. What it refuses it says, so that the other node's log has the reason. begun: there is a cluster. Who asks must not
// take this node for one that has heard of none while it does not know the seed.
func answer(c io.ReadWriter, token, self string, seed [seedLen]byte, begun bool) (hello, error) {
	var nonce [nonceLen]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return hello{}, err
	}
	if _, err := c.Write(append(append([]byte(greetingMagic), greetingVersion), nonce[:]...)); err != nil {
		return hello{}, err
	}
	h, proof, err := readHello(c)
	if err != nil {
		return h, err
	}
	result := byte(welcome)
	switch {
	case subtle.ConstantTimeCompare(proof, h.proof(token, "dialler", nonce, h.seed)) != 1:
		result, err = badProof, errProof
	case h.kind != Raft && h.kind != Forward && h.kind != Ask:
		result, err = badKind, fmt.Errorf("a stream of kind %d", h.kind)
	case h.to != self:
		result, err = wrongNode, fmt.Errorf("it looks for node %s here, and this is node %s", h.to, self)
	case !sameSeed(seed, h.seed):
		result, err = otherSeed, errors.New("it belongs to another cluster")
	case begun && h.kind == Ask && seed == [seedLen]byte{}:
		result, err = noSeed, errNoSeed
	}
	out := append([]byte{result}, seed[:]...)
	if result == badProof { // a stranger is told nothing
		out = append(make([]byte, 0, cap(out)), result)
		out = append(out, make([]byte, seedLen+sha256.Size)...)
	} else {
		out = append(out, h.proof(token, "acceptor", nonce, seed)...)
	}
	if _, werr := c.Write(out); err == nil {
		err = werr
	}
	return h, err
}

func readHello(c io.Reader) (h hello, proof []byte, err error) {
	var head [1 + nonceLen + seedLen]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return h, nil, err
	}
	h.kind = Kind(head[0])
	copy(h.nonce[:], head[1:])
	copy(h.seed[:], head[1+nonceLen:])
	for _, into := range []*string{&h.from, &h.to} {
		var n [1]byte
		if _, err := io.ReadFull(c, n[:]); err != nil {
			return h, nil, err
		}
		id := make([]byte, n[0])
		if _, err := io.ReadFull(c, id); err != nil {
			return h, nil, err
		}
		*into = string(id)
	}
	proof = make([]byte, sha256.Size)
	_, err = io.ReadFull(c, proof)
	return h, proof, err
}

// sameSeed says whether two nodes may be of one cluster: a seed of zeros is one that is not known yet.
func sameSeed(a, b [seedLen]byte) bool {
	var none [seedLen]byte
	return a == b || a == none || b == none
}
