// Package records makes the records of the benchmarks: the same ones for the same numbers, everywhere and always.
//
// A payload is a JSON object as a shop might send it: fields that repeat, numbers that do not, a few words of text. It compresses about
// five times in the sink's objects. A transaction id is a UUID in its text form, which compresses hardly at all.
package records

import (
	"encoding/hex"
	"strconv"
)

// TxIDSize is the length of every transaction id, bytes.
const TxIDSize = 36

// MinPayload is the smallest payload that can be made, bytes.
const MinPayload = 160

var (
	statuses   = []string{"created", "paid", "packed", "shipped", "delivered", "returned"}
	currencies = []string{"EUR", "USD", "GBP", "SEK"}
	words      = []string{"please", "ring", "twice", "leave", "with", "neighbour", "gift", "wrap", "red", "ribbon", "fragile", "no", "plastic",
		"before", "noon", "after", "work", "second", "floor", "behind", "gate", "call", "first", "and", "then", "garage", "code", "dog",
		"invoice", "separate", "thanks", "garden", "blue", "door", "office", "desk", "spare", "parts", "urgent", "sample"}
)

// random is splitmix64: small, quick and the same on every machine.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *random) below(n int) int { return int(r.next() >> 33 % uint64(n)) }

// AppendPayload appends the payload of record i: JSON of exactly size bytes, at least MinPayload.
func AppendPayload(dst []byte, i uint64, size int) []byte {
	r := random(i)
	end := len(dst) + max(size, MinPayload)
	dst = append(dst, `{"order":"o-`...)
	dst = padded(dst, i, 10)
	dst = append(dst, `","customer":`...)
	dst = strconv.AppendInt(dst, int64(r.below(50_000)), 10)
	dst = append(append(append(dst, `,"status":"`...), statuses[r.below(len(statuses))]...), `","amount":`...)
	dst = strconv.AppendInt(dst, int64(r.below(900)+1), 10)
	dst = padded(append(dst, '.'), uint64(r.below(100)), 2)
	dst = append(append(append(dst, `,"currency":"`...), currencies[r.below(len(currencies))]...), `","sku":"A-`...)
	dst = padded(dst, uint64(r.below(4000)), 4)
	dst = append(dst, `","n":`...)
	dst = strconv.AppendInt(dst, int64(r.below(9)+1), 10)
	dst = append(dst, `,"note":"`...)
	for end-len(dst) > 2+12 {
		dst = append(append(dst, words[r.below(len(words))]...), ' ')
	}
	for end-len(dst) > 2 {
		dst = append(dst, '.')
	}
	return append(dst, `"}`...)
}

// padded appends v with leading zeros.
func padded(dst []byte, v uint64, width int) []byte {
	at := len(dst)
	for range width {
		dst = append(dst, '0')
	}
	for i := len(dst) - 1; i >= at; i-- {
		dst[i] = byte('0' + v%10)
		v /= 10
	}
	return dst
}

// AppendTxID appends the transaction id of record i of a run: no two records of all runs share one.
func AppendTxID(dst []byte, run, i uint64) []byte {
	at := len(dst)
	dst = append(dst, "00000000-0000-0000-0000-000000000000"...)
	PutTxID(dst[at:], run, i)
	return dst
}

// PutTxID writes a transaction id over the first TxIDSize bytes of dst.
func PutTxID(dst []byte, run, i uint64) {
	id := [16]byte{}
	mixed := random(run)
	for j, v := 0, mixed.next()^i*0x9e3779b97f4a7c15; j < 8; j++ { // a bijection of i: ids of one run differ
		id[j] = byte(v >> (8 * j))
	}
	other := random(i ^ run)
	for j, v := 8, other.next(); j < 16; j++ {
		id[j] = byte(v >> (8 * (j - 8)))
	}
	hex.Encode(dst[0:8], id[0:4])
	hex.Encode(dst[9:13], id[4:6])
	hex.Encode(dst[14:18], id[6:8])
	hex.Encode(dst[19:23], id[8:10])
	hex.Encode(dst[24:36], id[10:16])
}

// Partition is the name of partition number n.
func Partition(n int) string { return "customer-" + strconv.Itoa(n) }
