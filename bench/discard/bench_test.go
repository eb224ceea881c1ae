package discard

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"queen/encode"
	"queen/stages"
	"queen/upload"
)

// serving names the variable by which this test binary becomes the server, so that its work is in nobody's figures.
const serving = "QUEEN_BENCH_DISCARD"

func TestMain(m *testing.M) {
	if os.Getenv(serving) == "" {
		os.Exit(m.Run())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("http://" + l.Addr().String())
	go func() { _ = http.Serve(l, &Server{}) }()
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent is gone
}

// far starts the server in a process of its own.
func far(b *testing.B) *upload.Client {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serving+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	client, err := upload.New(upload.ClientOptions{Endpoint: strings.TrimSpace(url), Region: "r", Bucket: "b", AccessKey: "a", SecretKey: "s", PathStyle: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	return client
}

// cpu is the processor time of this process so far.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// append100 is an append of 100 records in memory: those of a body under other offsets.
type append100 struct {
	h stages.Header
	r []stages.Record
}

func (a append100) Header() stages.Header { return a.h }

func (a append100) Records() iter.Seq2[stages.Record, error] {
	return func(yield func(stages.Record, error) bool) {
		for i, r := range a.r {
			if r.Offset = a.h.Base + int64(i); !yield(r, nil) {
				return
			}
		}
	}
}

// distinct is how many bytes of records come before the same payloads come again, far outside of any compressor's window.
const distinct = 16 << 20

// window is a job of about `size` bytes of records in appends of 100, and how its bodies are read. The place of an append is its number.
func window(size int, payload func(r *rand.Rand) []byte) (*stages.Job, encode.ReadFunc) {
	r := rand.New(rand.NewPCG(1, 2))
	var bodies [][]stages.Record
	header := func(i uint32) stages.Header {
		return stages.Header{TS: 1791009457501942 + stages.Micros(i), Partition: 1, Base: 100 * int64(i), Count: 100}
	}
	list := stages.Listing{Parts: []stages.Part{{ID: 1, Name: "customer-000123"}}}
	for at, i := 0, uint32(0); at < size; i++ {
		if at < distinct {
			body := make([]stages.Record, 100)
			for n := range body {
				body[n] = stages.Record{TxID: fmt.Appendf(nil, "01a1007b-855d-7001-8107-%012d", 100*int(i)+n), Payload: payload(r)}
			}
			bodies = append(bodies, body)
		}
		weight := 0
		for _, r := range bodies[int(i)%len(bodies)] {
			weight += stages.RecordWeight(len(r.TxID), len(list.Parts[0].Name), len(r.Payload))
		}
		list.Appends = append(list.Appends, stages.Append{Off: i, Len: uint32(weight)})
		list.Records += 100
		list.Weight += int64(weight)
		at += weight
	}
	list.MinTS, list.MaxTS = header(0).TS, header(uint32(len(list.Appends)-1)).TS
	job := &stages.Job{Queue: stages.QueueInfo{ID: 1, Name: "q"}, Listing: list, Sorted: list.Appends}
	return job, func(_ context.Context, _ *stages.Listing, appends []stages.Append, into func(int, stages.Body) error) error {
		for i, a := range appends {
			if err := into(i, append100{h: header(a.Off), r: bodies[int(a.Off)%len(bodies)]}); err != nil {
				return err
			}
		}
		return nil
	}
}

func typical(r *rand.Rand) []byte {
	return fmt.Appendf(nil, `{"order":%d,"customer":"cust-%06d","status":"paid","total":%d.%02d,"items":[{"sku":"A-%05d","n":%d},{"sku":"B-%05d","n":%d}],"note":"left at the door, rang twice","ip":"10.%d.%d.%d","at":"2026-10-03T06:%02d:%02dZ"}`,
		r.IntN(1e9), r.IntN(1e6), r.IntN(500), r.IntN(100), r.IntN(1e5), r.IntN(9), r.IntN(1e5), r.IntN(9), r.IntN(256), r.IntN(256), r.IntN(256), r.IntN(60), r.IntN(60))
}

func incompressible(r *rand.Rand) []byte {
	raw := make([]byte, 1500)
	for i := range raw {
		raw[i] = byte(r.Uint32())
	}
	return fmt.Appendf(nil, `"%s"`, base64.StdEncoding.EncodeToString(raw))
}

// What encoding and sending a window costs: processor seconds of this process by GB of records, and what it allocates.
func BenchmarkWindow(b *testing.B) {
	client := far(b)
	formats := encode.NewRegistry(nil)
	for _, c := range []struct {
		name, compression string
		size              int
		payload           func(*rand.Rand) []byte
	}{
		{"typical zstd 128 MiB", "zstd", 128 << 20, typical}, {"incompressible zstd 128 MiB", "zstd", 128 << 20, incompressible},
		{"incompressible none 128 MiB", "none", 128 << 20, incompressible}, {"typical zstd 100 KB", "zstd", 100_000, typical},
	} {
		b.Run(c.name, func(b *testing.B) {
			f, err := formats.Lookup("jsonl", c.compression)
			if err != nil {
				b.Fatal(err)
			}
			job, read := window(c.size, c.payload)
			job.Intent = stages.Intent{K: 1, Start: 1, End: 2, Format: "jsonl", Compression: c.compression, Level: f.Level(), Encoder: f.Encoder(), Layout: "merged", Align: "none", Prefix: "p"}
			up := upload.NewStage(upload.StageOptions{Client: client, Sink: "s", Tenant: stages.DefaultTenant, Threshold: 64 << 20,
				Describe: func(string, string) (string, string, error) { return f.Ext(), f.ContentType(), nil }})
			b.ReportAllocs()
			b.SetBytes(int64(c.size))
			start := cpu()
			r := stages.NewRun(b.Context())
			stages.Source(r, "jobs", func(_ context.Context, emit func(*stages.Job) error) error {
				for b.Loop() {
					next := *job
					if err := emit(&next); err != nil {
						return err
					}
				}
				return nil
			}).
				Via(stages.Via(r, "encode", encode.New(formats.Lookup, read, 4, &stages.Chunks{}, stages.DefaultTenant), 0)).
				Via(stages.Via(r, "upload", up, 1)).
				To(stages.Sink(r, "done", func(context.Context, *stages.Uploaded) error { return nil }))
			if err := r.Wait(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric((cpu()-start).Seconds()/float64(b.N)/float64(c.size)*1e9, "cpu-s/GB")
		})
	}
}
