package broker

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"queen/broker/command"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/stages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// options are those of a node on the disk in dir. A fatal error fails the test.
func options(t testing.TB, dir string) Options {
	return Options{Dir: dir, NodeID: 1, Now: time.Now, Log: zerolog.Nop(), Fatal: func(err error) { t.Error("fatal:", err) }}
}

func start(t testing.TB, o Options) *Broker {
	t.Helper()
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := b.Open(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// message is record n of a test: its content follows from n and the size.
func message(n uint64, size int) segment.Message {
	var m segment.Message
	binary.BigEndian.PutUint64(m.ID[8:], n)
	m.TxID = fmt.Appendf(nil, "tx-%d", n)
	sum := sha256.Sum256(m.ID[:])
	m.Payload = fmt.Appendf(nil, `{"n":%d,"sum":"%x","pad":"%0*d"}`, n, sum, size, n)
	return m
}

// pushBody is a push of messages first .. first+count-1 into one partition.
func pushBody(queue, partition string, first uint64, count, size int) []byte {
	var block []byte
	for i := range count {
		block = segment.AppendMessage(block, message(first+uint64(i), size))
	}
	p := command.Push{
		Queues:  []command.PushQueue{{Name: queue}},
		Appends: []command.PushAppend{{Partition: partition, Count: count, Block: block}},
	}
	tenant, err := tenantID(stages.DefaultTenant)
	if err != nil {
		panic(err)
	}
	p.Tenant = tenant
	return p.Append(nil)
}

func push(ctx context.Context, b *Broker, queue, partition string, first uint64, count, size int) (*state.PushResult, error) {
	answer, err := b.Propose(ctx, command.KindPush, pushBody(queue, partition, first, count, size))
	if err != nil {
		return nil, err
	}
	r, ok := answer.(*state.PushResult)
	if !ok {
		return nil, fmt.Errorf("a push was answered with %T", answer)
	}
	return r, nil
}

func mustPush(t testing.TB, b *Broker, queue, partition string, first uint64, count int) *state.PushResult {
	t.Helper()
	r, err := push(t.Context(), b, queue, partition, first, count, 10)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
