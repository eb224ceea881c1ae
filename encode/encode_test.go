package encode

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"

	"queen/encode/rows"
	"queen/internal/rounds"
	"queen/stages"
)

func encode(t *testing.T, f Format, l *log, readers int) ([]byte, stages.Stats) {
	t.Helper()
	var out bytes.Buffer
	stats, err := f.Encode(t.Context(), &out, l.rows(readers))
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), stats
}

// P1 and P25: the line, byte for byte.
func TestLines(t *testing.T) {
	f, err := Lookup("jsonl", "none")
	if err != nil {
		t.Fatal(err)
	}
	got, stats := encode(t, f, odd(), 1)
	want := strings.Join([]string{
		`{"partition":"","offset":0,"transactionId":"t1","ts":"2026-10-03T06:37:37.501942Z","payload":{ "a" : 1, "h":"<a>&", "n":9007199254740993123, "t":42.00, "u":"\u00e9\/", "ls":"` + "\u2028" + `" }}`,
		`{"partition":"a\"\\\u0001\u001f\b\f\n\r\t/` + "\x7f" + `","offset":5,"transactionId":"t\"2","ts":"1969-12-31T23:59:59.999999Z","payload":{   "a": 1 }}`,
		`{"partition":"a\"\\\u0001\u001f\b\f\n\r\t/` + "\x7f" + `","offset":6,"transactionId":"t3","ts":"1969-12-31T23:59:59.999999Z","payload":null}`,
		`{"partition":"a\"\\\u0001\u001f\b\f\n\r\t/` + "\x7f" + `","offset":7,"transactionId":"t4","ts":"1969-12-31T23:59:59.999999Z","payload":null}`,
		`{"partition":"b","offset":0,"transactionId":"old incarnation","ts":"1970-01-01T00:00:00.000000Z","payload":"x"}`,
		`{"partition":"b","offset":0,"transactionId":"new incarnation","ts":"9999-12-31T23:59:59.999999Z","payload":-0}`,
		`{"partition":"b","offset":1,"transactionId":"","ts":"9999-12-31T23:59:59.999999Z","payload":1E+400}`,
		`{"partition":"ключ","offset":4611686018427387904,"transactionId":"😀","ts":"2026-10-03T06:37:37.501942Z","payload":[1,1,{"k":1,"k":2}]}`,
	}, "\n") + "\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if stats != (stages.Stats{Records: 8, Partitions: 4, MinTS: -1, MaxTS: 253402300799999999}) {
		t.Errorf("stats %+v", stats)
	}
}

// golden pins the bytes of each encoder. When one of the sums changes, the Encoder id must change with it (contract B1): a node
// with the old id and one with the new would otherwise write different bytes under one key.
var golden = map[string]string{
	"jsonl/1 klauspost/compress v1.20.4 zstd default w512k jobs": "9b59ad31010882cf1bb4e54c1bd04cf20376df7b7eac135578a6188ca0c77e13",
	"jsonl/1 klauspost/compress v1.20.4 gzip 6":                  "3e4e7ca3fbf59f182de6f4feac57b4755eef291fa1b56d0b0712a7b9f9efcbac",
	"jsonl/1 plain": "ffc580731c47a6d2f03e4db1e2e88aab2849a786baa8e322ad6e1ce9e4821a38",
	"parquet/1 groups 100000 rows 16777216 weight, pages 20000 rows 1048576 bytes, arrow-go v18.8.0, klauspost/compress v1.20.4 zstd default w1m pages": "d0069460feb5cb532d99726ace8a6f4924d59e83dc020635f8356c44cf03dd98",
	"parquet/1 groups 100000 rows 16777216 weight, pages 20000 rows 1048576 bytes, arrow-go v18.8.0, klauspost/compress v1.20.4 snappy amd64":           "94b55d472de2c0b1a78478fd1e3f0b610468f746e6e7de6f10913b9e0b8aac6e",
}

// P19: same rows, same bytes: for any number of readers and cores, and as pinned.
func TestP19GoldenBytes(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	l := large(7, 6_000)
	for _, f := range formats(t) {
		for _, procs := range []int{8, 2, 1}[:rounds.Of(3, 1)] {
			runtime.GOMAXPROCS(procs)
			for _, readers := range []int{3, 1}[:rounds.Of(2, 1)] {
				h := sha256.New()
				data, _ := encode(t, f, l, readers)
				small, _ := encode(t, f, odd(), readers)
				empty, _ := encode(t, f, &log{}, readers)
				h.Write(data)
				h.Write(small)
				h.Write(empty)
				if got, want := hex.EncodeToString(h.Sum(nil)), golden[f.Encoder()]; got != want {
					t.Errorf("%s, %d procs, %d readers: %s, want %q: other bytes need another Encoder()", f.Encoder(), procs, readers, got, want)
				}
			}
		}
	}
}

// The versions in encoder ids are the ones that are linked, and the major version in manifests is that of the import path.
func TestEncoderNamesTheLinkedLibrary(t *testing.T) {
	compress, arrow := linked(t, "github.com/klauspost/compress"), linked(t, "github.com/apache/arrow-go/v18")
	for _, f := range formats(t) {
		if f.Compression() != "none" && !strings.Contains(f.Encoder(), "klauspost/compress "+compress+" ") {
			t.Errorf("%q does not name klauspost/compress %s", f.Encoder(), compress)
		}
		if major, _, _ := strings.Cut(strings.TrimPrefix(arrow, "v"), "."); f.Name() == "parquet" &&
			(!strings.Contains(f.Encoder(), "arrow-go "+arrow+",") || !strings.Contains(f.Writer(), "parquet/"+major+" ")) {
			t.Errorf("%q and %q do not name arrow-go %s", f.Encoder(), f.Writer(), arrow)
		}
	}
}

// linked is the version of a module in this build.
func linked(t *testing.T, module string) string {
	t.Helper()
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == module && m.Replace != nil {
				return "replaced"
			}
			if m.Path == module {
				return m.Version
			}
		}
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// What users and stores see of each format.
func TestRegistry(t *testing.T) {
	var got []string
	for _, f := range formats(t) {
		got = append(got, fmt.Sprintf("%s %s level=%d ext=%s type=%s writer=%q", f.Name(), f.Compression(), f.Level(), f.Ext(), f.ContentType(), f.Writer()))
		if g, err := Lookup(f.Name(), f.Compression()); err != nil || g.Encoder() != f.Encoder() {
			t.Errorf("lookup %s %s: %v", f.Name(), f.Compression(), err)
		}
	}
	want := []string{
		`jsonl zstd level=3 ext=jsonl.zst type=application/zstd writer="queen-s3/2.0.0 jsonl+zstd"`,
		`jsonl gzip level=6 ext=jsonl.gz type=application/gzip writer="queen-s3/2.0.0 jsonl+gzip"`,
		`jsonl none level=0 ext=jsonl type=application/x-ndjson writer="queen-s3/2.0.0 jsonl"`,
		`parquet zstd level=3 ext=parquet type=application/vnd.apache.parquet writer="queen-s3/2.0.0 parquet/18 zstd"`,
		`parquet snappy level=0 ext=parquet type=application/vnd.apache.parquet writer="queen-s3/2.0.0 parquet/18 snappy"`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the formats and compressions are\n%s", strings.Join(got, "\n"))
	}
	var e *UnknownError
	for _, unknown := range [][2]string{{"parquet", "gzip"}, {"parquet", "none"}, {"jsonl", "snappy"}, {"avro", "zstd"}} {
		if _, err := Lookup(unknown[0], unknown[1]); !errors.As(err, &e) || e.Format != unknown[0] || e.Compression != unknown[1] {
			t.Errorf("%s: %v", unknown, err)
		}
	}
}

// What was written is read back, record for record.
func TestRoundTrip(t *testing.T) {
	for _, f := range formats(t) {
		for _, l := range []*log{odd(), large(3, rounds.Of(3000, 300)), {}} {
			data, stats := encode(t, f, l, 2)
			got := collect(t, f.Decode(bytes.NewReader(data)))
			if int64(len(got)) != stats.Records {
				t.Fatalf("%s: %d rows of %d", f.Ext(), len(got), stats.Records)
			}
			i := 0
			for _, b := range l.bodies {
				for _, r := range b.All {
					payload := string(r.Payload)
					if f.Name() == "jsonl" {
						payload = strings.NewReplacer("\r", " ", "\n", " ").Replace(payload)
						payload = cmp.Or(payload, "null")
					}
					want := Row{Partition: l.names[b.H.Partition], Offset: r.Offset, TxID: string(r.TxID), TS: b.H.TS, Payload: []byte(payload)}
					if fmt.Sprintf("%+v", got[i]) != fmt.Sprintf("%+v", want) {
						t.Fatalf("%s: row %d: %+v, want %+v", f.Ext(), i, got[i], want)
					}
					i++
				}
			}
		}
	}
}

// The one frame that two encoders made side by side is read by the zstd command, whole and as one frame.
func TestZstdCommandReadsIt(t *testing.T) {
	bin, err := exec.LookPath("zstd")
	switch {
	case err != nil && os.Getenv("CI") != "":
		t.Fatal(err) // there it is installed, so that this is seen on every change
	case err != nil:
		t.Skip("no zstd command here")
	}
	zst, _ := Lookup("jsonl", "zstd")
	none, _ := Lookup("jsonl", "none")
	for _, l := range []*log{large(5, 12_000), odd(), {}} {
		data, _ := encode(t, zst, l, 2)
		plain, _ := encode(t, none, l, 2)
		cmd := exec.Command(bin, "-dc")
		cmd.Stdin = bytes.NewReader(data)
		out, err := cmd.Output()
		if err != nil || !bytes.Equal(out, plain) {
			t.Errorf("zstd -dc: %v, %d bytes of %d", err, len(out), len(plain))
		}
	}
}

// Rows whose places are out of order are refused before the first byte.
func TestOrderIsRefused(t *testing.T) {
	for name, change := range map[string]func(r *Rows){
		"names":              func(r *Rows) { r.Appends[0], r.Appends[3] = r.Appends[3], r.Appends[0] },
		"places":             func(r *Rows) { r.Appends[0], r.Appends[1] = r.Appends[1], r.Appends[0] },
		"segments":           func(r *Rows) { r.Appends[0].Seg = 7 },
		"twice":              func(r *Rows) { r.Appends[1] = r.Appends[0] },
		"incarnations":       func(r *Rows) { r.Appends[2], r.Appends[3] = r.Appends[3], r.Appends[2] },
		"no such partition":  func(r *Rows) { r.Appends[3].Part = 3 },
		"names in the table": func(r *Rows) { r.List.Parts[0].Name = "c" },
	} {
		l := steps()
		r := l.rows(1)
		if s, err := r.Check(); err != nil || s != (stages.Stats{Records: 6, Partitions: 2, MinTS: 10, MaxTS: 13}) {
			t.Fatalf("the good one: %+v, %v", s, err)
		}
		change(&r)
		if _, err := r.Check(); err == nil {
			t.Errorf("%s: checked", name)
		}
		var out bytes.Buffer
		f, _ := Lookup("jsonl", "none")
		_, err := f.Encode(t.Context(), &out, r)
		if err == nil || out.Len() != 0 {
			t.Errorf("%s: %v, %d bytes", name, err, out.Len())
		}
		if name != "no such partition" && !errors.Is(err, rows.ErrOrder) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// steps is two appends of partition a and two incarnations of b.
func steps() *log {
	l := &log{}
	l.add(1, "a", 10, 0, record("x", "1"), record("x", "1"))
	l.add(1, "a", 11, 2, record("x", "1"), record("x", "1"))
	l.add(2, "b", 12, 0, record("x", "1"))
	l.add(3, "b", 13, 0, record("x", "1"))
	return l
}

// Stamps and offsets that are out of order fail the window, also where one run ends and the next begins, and in whatever order the
// workers come to them.
func TestHeadersOutOfOrder(t *testing.T) {
	for name, change := range map[string]func(l *log){
		"stamps": func(l *log) { l.bodies[1].H.TS = 9 },
		"offsets": func(l *log) {
			l.bodies[1].H.Base, l.bodies[1].All[0].Offset, l.bodies[1].All[1].Offset = 1, 1, 2
		},
		"incarnations":    func(l *log) { l.bodies[3].H.TS = 11 },
		"the same stamps": func(l *log) { l.bodies[3].H.TS = 12 },
	} {
		for _, large := range []bool{false, true} { // each append a run
			l := steps()
			change(l)
			r := l.rows(2)
			if large {
				for i := range r.Appends {
					r.Appends[i].Len = 2 << 20
				}
			}
			f, _ := Lookup("jsonl", "none")
			if _, err := f.Encode(t.Context(), &bytes.Buffer{}, r); !errors.Is(err, rows.ErrOrder) || !errors.Is(err, stages.ErrDamaged) {
				t.Errorf("%s, large runs %v: %v", name, large, err)
			}
		}
	}
}

// Bodies that are not exactly what the headers say fail the window: nothing is ever skipped (design invariant 2).
func TestBodiesAreChecked(t *testing.T) {
	for name, change := range map[string]func(l *log, r *Rows){
		"one record less": func(l *log, _ *Rows) { l.bodies[1].All = l.bodies[1].All[:1] },
		"one more": func(l *log, _ *Rows) {
			l.bodies[1].All = append(l.bodies[1].All, stages.Record{Offset: 4, Payload: []byte("1")})
		},
		"a hole":            func(l *log, _ *Rows) { l.bodies[1].All[1].Offset = 7 },
		"another partition": func(l *log, _ *Rows) { l.bodies[1].H.Partition = 77 },
		"no records":        func(l *log, _ *Rows) { l.bodies[1].H.Count, l.bodies[1].All = 0, nil },
		"damaged":           func(l *log, _ *Rows) { l.bodies[2].Err = stages.ErrDamaged },
		"one body less": func(l *log, r *Rows) {
			r.Read = func(ctx context.Context, as []stages.Append, into func(int, stages.Body) error) error {
				return l.read(ctx, as[:len(as)-1], into)
			}
		},
		"another place": func(l *log, r *Rows) {
			r.Read = func(_ context.Context, _ []stages.Append, into func(int, stages.Body) error) error {
				return into(1, l.bodies[1])
			}
		},
	} {
		l := &log{}
		l.add(1, "a", 10, 0, record("x", "1"), record("x", "1"))
		l.add(1, "a", 11, 2, record("x", "1"), record("x", "1"))
		l.add(2, "b", 12, 0, record("x", "1"))
		r := l.rows(1)
		change(l, &r)
		for _, f := range formats(t) {
			if _, err := f.Encode(t.Context(), &bytes.Buffer{}, r); !errors.Is(err, stages.ErrDamaged) {
				t.Errorf("%s, %s: %v", f.Ext(), name, err)
			}
		}
	}
}

// An error of any reader, of the writer or of the context ends the encoding, is what it returns, and leaves no goroutine.
func TestErrorsEndTheEncoding(t *testing.T) {
	boom := errors.New("boom")
	l := large(1, 4_000)
	for _, f := range formats(t) {
		for _, readers := range []int{1, 4} {
			synctest.Test(t, func(t *testing.T) {
				for _, at := range []uint32{0, 2_000, uint32(len(l.bodies) - 1)} {
					r := l.rows(readers)
					r.Read = func(ctx context.Context, as []stages.Append, into func(int, stages.Body) error) error {
						for _, a := range as {
							if a.Off == at {
								return boom
							}
						}
						return l.read(ctx, as, into)
					}
					if _, err := f.Encode(t.Context(), &bytes.Buffer{}, r); !errors.Is(err, boom) {
						t.Errorf("%s, reader at %d: %v", f.Ext(), at, err)
					}
					r.Read = func(context.Context, []stages.Append, func(int, stages.Body) error) error { panic("in the reader") }
					_, err := f.Encode(t.Context(), &bytes.Buffer{}, r)
					var p *stages.PanicError
					if !errors.As(err, &p) || p.Value != "in the reader" || !strings.Contains(string(p.Stack), "TestErrorsEndTheEncoding") {
						t.Errorf("%s, panic: %v", f.Ext(), err)
					}
				}
				if _, err := f.Encode(t.Context(), &failing{after: 100_000, err: boom}, l.rows(readers)); !errors.Is(err, boom) {
					t.Errorf("%s, writer: %v", f.Ext(), err)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				r := l.rows(readers)
				r.Read = func(ctx context.Context, _ []stages.Append, _ func(int, stages.Body) error) error {
					cancel(boom)
					<-ctx.Done()
					return context.Cause(ctx)
				}
				if _, err := f.Encode(ctx, &bytes.Buffer{}, r); !errors.Is(err, boom) {
					t.Errorf("%s, cancelled: %v", f.Ext(), err)
				}
			})
		}
	}
}

type failing struct {
	after int
	err   error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.after -= len(p); f.after < 0 {
		return 0, f.err
	}
	return len(p), nil
}

// Readers run ahead of the writer by their number and no further.
func TestReadAheadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := large(1, 12_000)
		const readers = 3
		r := l.rows(readers)
		started := make(chan struct{}, 1000)
		r.Read = func(ctx context.Context, as []stages.Append, into func(int, stages.Body) error) error {
			started <- struct{}{}
			return l.read(ctx, as, into)
		}
		release := make(chan struct{})
		f, _ := Lookup("jsonl", "none")
		done := make(chan error, 1)
		go func() {
			_, err := f.Encode(t.Context(), &gateWriter{release}, r)
			done <- err
		}()
		synctest.Wait()
		if n := len(started); n != readers+1 {
			t.Errorf("%d runs read before one was written", n)
		}
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := len(started); n < 8 {
			t.Errorf("%d runs in all: the window is too small for this test", n)
		}
	})
}

type gateWriter struct{ release chan struct{} }

func (g *gateWriter) Write(p []byte) (int, error) {
	<-g.release
	return len(p), nil
}

// What nobody could open is a JSON string of the stored bytes in every format, the text of an envelope too; what was opened is itself
// (contract S9).
func TestSealedPayloads(t *testing.T) {
	const envelope = `{"encrypted":"AA==","iv":"AAAAAAAAAAAAAAAAAAAAAA==","authTag":"AAAAAAAAAAAAAAAAAAAAAA=="}`
	for _, f := range formats(t) {
		l := &log{}
		l.add(1, "p", 0, 0, record("a", `{"a":1}`), record("b", "\xff\"\x01é"), record("c", envelope), record("d", `[2]`), record("e", envelope), record("f", ""))
		l.bodies[0].H.Flags = stages.FlagSealed
		for _, i := range []int{1, 2, 5} {
			l.bodies[0].All[i].Sealed = true
		}
		got, _ := encode(t, f, l, 1)
		var payloads []string
		for _, row := range collect(t, f.Decode(bytes.NewReader(got))) {
			payloads = append(payloads, string(row.Payload))
		}
		want := `{"a":1}|"` + "\uFFFD" + `\"\u0001é"|"` + strings.ReplaceAll(envelope, `"`, `\"`) + `"|[2]|` + envelope + `|""`
		if strings.Join(payloads, "|") != want {
			t.Errorf("%s: got %s, want %s", f.Encoder(), strings.Join(payloads, "|"), want)
		}
	}
}
