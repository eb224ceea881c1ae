package broker

import (
	"sync/atomic"
	"testing"

	"queen/broker/command"
	"queen/broker/segment"
	"queen/stages"
)

// BenchmarkPush pushes 100 records of 256 bytes to one partition, from many callers, on the disk of the temporary folder.
func BenchmarkPush(b *testing.B) {
	const records = 100
	o := options(b, b.TempDir())
	node := start(b, o)
	tenant, err := tenantID(stages.DefaultTenant)
	if err != nil {
		b.Fatal(err)
	}
	var id atomic.Uint64
	b.SetBytes(records * 256)
	b.SetParallelism(64)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		payload := make([]byte, 256)
		for pb.Next() {
			var block []byte
			for range records {
				m := message(id.Add(1), 1)
				m.TxID, m.Payload = nil, payload
				block = segment.AppendMessage(block, m)
			}
			p := command.Push{Tenant: tenant, Queues: []command.PushQueue{{Name: "q"}},
				Appends: []command.PushAppend{{Partition: "p", Count: records, Block: block}}}
			if _, err := node.Propose(b.Context(), command.KindPush, p.Append(nil)); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds(), "records/s")
}
