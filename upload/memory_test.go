package upload

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"queen/internal/fakes3"
	"queen/stages"
)

const mib = 1 << 20

// While a store is slow, the encoder runs as far ahead as it may: what the stage holds then is what Memory says, to the byte, and never more.
func TestMemoryIsKnown(t *testing.T) {
	for _, c := range []struct{ part, threshold, size, want int64 }{ // MiB
		{16, 64, 66, 49}, {16, 5, 66, 48}, {5, 64, 26, 16}, {5, 5, 26, 15}, {5, 12, 26, 15}, {8, 20, 33, 24}, {5, 64, 15, 16},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket(t, fakes3.Options{}, nil)
				b.s3.Script(fakes3.Rule{Op: "multipart_part", Delay: 50 * time.Second}, fakes3.Rule{Op: "put", Delay: 50 * time.Second})
				s := NewStage(StageOptions{Client: b.Client, Tenant: testTenant, Part: c.part * mib, Threshold: c.threshold * mib, Describe: describe})
				var pool stages.Chunks
				job := testJob()
				data := pattern(int(c.size * mib))
				most := int64(0)
				for i, d := range chunked(data, stages.ChunkBytes) {
					in := taken(&pool, job, d)
					in.End = int64(i) == c.size-1
					most = max(most, pool.Out())
					if err := s.Do(t.Context(), in, func(*stages.Uploaded) error { return nil }); err != nil {
						t.Fatal(err)
					}
				}
				atRest(&pool)
				known := Memory(c.part*mib, c.threshold*mib)
				if known != c.want*mib || most > known || c.size*mib >= known && most != known {
					t.Errorf("%d MiB were held, Memory says %d, want %d", most/mib, known/mib, c.want)
				}
				if got, _ := b.s3.Object(testData); !bytes.Equal(got, data) {
					t.Errorf("the object has %d bytes of %d", len(got), len(data))
				}
			})
		})
	}
}

// Parts have the size that they are given, all but the last; one PUT carries at most three of them.
func TestPartSize(t *testing.T) {
	for _, c := range []struct {
		part, threshold int64 // MiB
		size            int
		want            string
	}{
		{5, 64, 15 * mib, "put 15728640"},
		{5, 64, 15*mib + 1, "5242880 5242880 5242880 1"},
		{8, 9, 9*mib + 1, "8388608 1048577"},
		{8, 5, 6 * mib, "6291456"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(t, fakes3.Options{}, nil)
			s := NewStage(StageOptions{Client: b.Client, Tenant: testTenant, Part: c.part * mib, Threshold: c.threshold * mib, Describe: describe})
			data := pattern(c.size)
			if _, err := send(t.Context(), s, testJob(), data); err != nil {
				t.Fatal(err)
			}
			reqs := b.s3.Requests()
			transcript(reqs) // sorts the parts
			var got []string
			for _, r := range reqs {
				switch {
				case r.Op == "multipart_part":
					got = append(got, fmt.Sprint(r.Bytes))
				case r.Op == "put" && r.Key == testData:
					got = append(got, fmt.Sprint("put ", r.Bytes))
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%d bytes in parts of %d MiB, threshold %d: %s", c.size, c.part, c.threshold, got)
			}
			if object, _ := b.s3.Object(testData); !bytes.Equal(object, data) {
				t.Errorf("the object has %d bytes of %d", len(object), len(data))
			}
		})
	}
}

// A size that no upload can have fails the window before a byte of it is sent, and says what can be had.
func TestImpossibleParts(t *testing.T) {
	for _, part := range []int64{1, 4 * mib, 5*mib + 1, 17 * mib, -1} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(t, fakes3.Options{}, nil)
			s := NewStage(StageOptions{Client: b.Client, Tenant: testTenant, Part: part, Threshold: 5 * mib, Describe: describe})
			if _, err := send(t.Context(), s, testJob(), pattern(7*mib)); err == nil || !strings.Contains(err.Error(), "from 5242880 to 16777216") {
				t.Errorf("parts of %d bytes: %v", part, err)
			}
			if n := len(b.s3.Requests()); n != 0 {
				t.Errorf("parts of %d bytes: %d requests", part, n)
			}
		})
	}
}

// Nothing is hashed behind the last byte, and no byte of the first part is hashed twice.
func TestHashesAreReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		o := newObject(StageOptions{Client: b.Client, Part: 5 * mib, Threshold: 5 * mib, Hook: func(string) {}}, "k", "text/plain", true, func(context.Context) error { return nil })
		var pool stages.Chunks
		for i, d := range chunked(pattern(13*mib), stages.ChunkBytes) {
			if err := o.write(t.Context(), taken(&pool, nil, d)); err != nil {
				t.Fatal(err)
			}
			for _, s := range o.held {
				if s.first && s.sha != nil || !s.first && o.upload != nil && s.hashed != len(s.chunks) {
					t.Errorf("chunk %d: a part of %d chunks, the first %v, %d of them hashed by itself", i, len(s.chunks), s.first, s.hashed)
				}
			}
		}
		o.abort(t.Context())
		atRest(&pool)
	})
}

// The MD5 of one PUT is that of its bytes whether it was guessed that there would be one or not; behind an object in parts it is not guessed.
func TestMD5IsGuessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, fakes3.Options{}, nil)
		s := NewStage(StageOptions{Client: b.Client, Tenant: testTenant, Part: 5 * mib, Threshold: 5 * mib, Describe: describe})
		for i, c := range []struct {
			size  int
			ahead bool
		}{{3 * mib, true}, {7 * mib, true}, {8 * mib, false}, {4 * mib, false}, {2 * mib, true}} {
			job, data := testJob(), pattern(c.size)
			var pool stages.Chunks
			for n, d := range chunked(data, stages.ChunkBytes) {
				in := taken(&pool, job, d)
				if n == 0 {
					if err := s.Do(t.Context(), in, nil); err != nil {
						t.Fatal(err)
					}
					if (s.cur.obj.md5 != nil) != c.ahead {
						t.Errorf("object %d: an MD5 ahead of time: %v", i, !c.ahead)
					}
					continue
				}
				in.End = (n+1)*stages.ChunkBytes == c.size
				if err := s.Do(t.Context(), in, func(*stages.Uploaded) error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
			if c.size > 5*mib {
				continue
			}
			sum := md5.Sum(data)
			reqs := b.s3.Requests()
			if r := reqs[len(reqs)-2]; r.Op != "put" || r.Key != testData || r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(sum[:]) {
				t.Errorf("object %d: %s %s with Content-MD5 %s", i, r.Op, r.Key, r.Header.Get("Content-Md5"))
			}
		}
	})
}
