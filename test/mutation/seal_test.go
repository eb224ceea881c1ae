package mutation

import "testing"

// sealTable is what stands between a payload of a queue with encryptionEnabled and a disk, and between an envelope and the lake.
var sealTable = []mutation{
	{invariant: "R5", why: "payloads of a queue with encryptionEnabled are stored as they are",
		file: "broker/api/push.go", old: "if row.Seals() {", new: "if row.Seals() && false {", pkg: "broker/api", test: "TestSealedPayloads", says: "stored as"},
	{invariant: "R5", why: "all payloads are sealed with one nonce",
		file: "broker/api/seal.go", old: "[seal.IVBytes]byte(g.ivs[i*seal.IVBytes:])", new: "[seal.IVBytes]byte{}", pkg: "broker/api", test: "TestSealedBesideOpen", says: "secret ["},
	{invariant: "R5", why: "payloads are sealed with additional data that no other reader of the envelope knows",
		file: "broker/seal/seal.go", old: "k.aead.Seal(w.buf, w.buf[:nonceBytes], plain, nil)", new: `k.aead.Seal(w.buf, w.buf[:nonceBytes], plain, []byte("queen"))`,
		pkg: "broker/seal", test: "TestExample", says: "does not hold"},
	{invariant: "R5", why: "payloads are opened with other additional data",
		file: "broker/seal/seal.go", old: "k.aead.Open(sealed[:0], w.buf[:nonceBytes], sealed, nil)", new: `k.aead.Open(sealed[:0], w.buf[:nonceBytes], sealed, []byte("queen"))`,
		pkg: "broker/seal", test: "TestRoundTrip", says: "came back as"},
	{invariant: "H10", why: "a push that was prepared before encryption was switched on is stored as it is",
		file: "broker/state/push.go", old: "case (q.row.Config != named.Config || q.row.Key != 0) && q.row.Seals():", new: "case q.row.Key != 0 && q.row.Seals():",
		pkg: "broker/api", test: "TestH10SealingRace", says: "stored"},
	{invariant: "R5", why: "what another key sealed is stored, and is never opened again",
		file: "broker/state/push.go", old: "if q.row.Key != 0 && q.row.Key != seal.Fingerprint(p.Key) {", new: "if false {",
		pkg: "broker", test: "TestSealedRestart", says: "another key sealed into the queue"},
	{invariant: "S5", why: "the weight of a window is that of envelopes",
		file: "broker/state/push.go", old: "if n, ok := seal.PlainLen(stored); ok {", new: "if n, ok := seal.PlainLen(stored); ok && n < 0 {",
		pkg: "broker/api", test: "TestSealedPayloads", says: "weight"},
	{invariant: "S9", why: "an envelope that cannot be opened is an object in the lake, as if a producer had sent it",
		file: "encode/jsonl/line.go", old: "if rec.Sealed {", new: "if false {", pkg: "encode", test: "TestSealedPayloads", says: "not UTF-8"},
	{invariant: "S9", why: "the same in Parquet",
		file: "encode/parquet/records.go", old: "if !rec.Sealed {", new: "if rec != nil {", pkg: "encode", test: "TestSealedPayloads", says: "not one JSON value"},
	{invariant: "B1", why: "a node without a queue's key takes it and writes envelopes",
		file: "sink/claim.go", old: `if info.Key == "" || info.Key == q.s.o.Key {`, new: "if true {", pkg: "sink", test: "TestC8KeyOfAQueue", says: "left alone"},
	{invariant: "B1", why: "an intent does not name the key that its payloads are sealed with",
		file: "commit/begin.go", old: "job.Intent.Key = queue.Key", new: "_ = queue", pkg: "sink", test: "TestC8KeyOfAQueue", says: "intent {"},
	{invariant: "B1", why: "a window whose intent names another key is redone",
		file: "sink/sink.go", old: `if in.Key != "" && in.Key != s.o.Key {`, new: "if false {", pkg: "sink", test: "TestUnknownIntent", says: ""},
}

// TestSealingCanBeBroken does for encryption at rest what TestEachInvariantCanBeBroken does for the argument.
func TestSealingCanBeBroken(t *testing.T) { breakEach(t, sealTable) }
