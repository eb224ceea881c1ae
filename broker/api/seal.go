package api

import (
	"fmt"
	"time"

	"queen/broker/seal"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/stages"
)

// sealing is what becomes of the payloads of one push that is being prepared: those of queues with encryptionEnabled are sealed, if this node
// has the key. Its zero value seals nothing, which is all that a push without such a queue pays for.
type sealing struct {
	on    bool
	queue []bool // by index of pushRequest.queues
	rows  []*state.QueueRow
	key   *seal.Key
	ivs   []byte // of all items
	text  []byte
	work  seal.Work
}

// want notes a queue that seals.
func (g *sealing) want(i, queues int, row *state.QueueRow) {
	if g.queue == nil {
		g.queue = make([]bool, queues)
	}
	g.queue[i] = true
	g.rows = append(g.rows, row)
}

// prepareSealing decides whether the payloads are sealed. A queue that has been sealed takes nothing in plain text, and nothing that another
// key sealed: it would never be opened again. One that has not is served as it is by a node without a key, which says so (wire contract 7.4).
func (s *server) prepareSealing(g *sealing, p *pushRequest) error {
	for _, row := range g.rows {
		if row.Key == 0 || row.Key == s.o.Key.Fingerprint() {
			continue
		}
		has := "has none"
		if s.o.Key != nil {
			has = "has another, " + s.o.Key.String()
		}
		return refuse(codeEncryption, fmt.Sprintf("the payloads of queue %q are sealed with the encryption key %s and this node %s: give it that key in "+
			"QUEEN_ENCRYPTION_KEY, or configure encryptionEnabled=false to store payloads as they are", row.Name, row.Key, has))
	}
	if len(g.rows) == 0 {
		return nil
	}
	if s.o.Key == nil {
		s.sayPlain(g.rows[0].Name)
		g.queue = nil
		return nil
	}
	g.on, g.key, g.ivs = true, s.o.Key, make([]byte, len(p.items)*seal.IVBytes)
	return s.ids.random(g.ivs)
}

// plainEvery is how often a node without a key says that it stores what was to be encrypted.
const plainEvery = time.Minute

// sayPlain warns that payloads which were to be sealed are stored as they are.
func (s *server) sayPlain(queue string) {
	now := s.o.Now().UnixNano()
	if last := s.saidPlain.Load(); last != 0 && now-last < int64(plainEvery) || !s.saidPlain.CompareAndSwap(s.saidPlain.Load(), now) {
		return
	}
	s.o.Log.Warn().Str("queue", queue).Msg(plainText)
}

// plainText is what a node without a key says of a queue with encryptionEnabled.
const plainText = "encryptionEnabled is on and this node has no QUEEN_ENCRYPTION_KEY: payloads are stored unencrypted"

// flag is the frame flag of appends to a queue of the push.
func (g *sealing) flag(queue int) uint32 {
	if g.queue == nil || !g.queue[queue] {
		return 0
	}
	return stages.FlagSealed
}

// sizes returns the size of each group's record block.
func (g *sealing) sizes(p *pushRequest) []int {
	sizes := make([]int, len(p.groups))
	for i, group := range p.groups {
		if g.flag(group.queue) == 0 {
			sizes[i] = group.size
		}
	}
	if g.on {
		for i := range p.items {
			if it := &p.items[i]; g.flag(p.groups[it.group].queue) != 0 {
				sizes[it.group] += recordSize(it, seal.SealedLen(len(it.payload)))
			}
		}
	}
	return sizes
}

// seal puts the envelope of item i in the place of its payload, if its queue seals. It is good until the next call.
func (g *sealing) seal(m *segment.Message, queue, i int) {
	if g.flag(queue) == 0 {
		return
	}
	iv := [seal.IVBytes]byte(g.ivs[i*seal.IVBytes:])
	g.text = g.key.Seal(g.text[:0], m.Payload, iv, &g.work)
	m.Payload = g.text
}
