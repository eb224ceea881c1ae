package broker

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"queen/broker/command"
	"queen/broker/seal"
	"queen/broker/seal/sealtest"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/stages"
)

// pushSealed pushes payloads into one partition, sealed with a key.
func pushSealed(t testing.TB, b *Broker, k *seal.Key, queue string, payloads ...string) *state.PushResult {
	t.Helper()
	tenant, err := tenantID(stages.DefaultTenant)
	if err != nil {
		t.Fatal(err)
	}
	a := command.PushAppend{Partition: "p", Flags: stages.FlagSealed, Count: len(payloads)}
	for i, p := range payloads {
		stored := k.Seal(nil, []byte(p), [seal.IVBytes]byte{byte(i)}, new(seal.Work))
		a.Block = segment.AppendMessage(a.Block, segment.Message{ID: [16]byte{15: byte(i)}, Payload: stored})
	}
	p := command.Push{Tenant: tenant, Queues: []command.PushQueue{{Name: queue}}, Appends: []command.PushAppend{a}, Key: uint64(k.Fingerprint())}
	answer, err := b.Propose(t.Context(), command.KindPush, p.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	return answer.(*state.PushResult)
}

// payloads reads a queue as the sink does, with "!" in front of what could not be opened.
func payloads(t testing.TB, b *Broker, queue string) (out []string) {
	t.Helper()
	info, ok := b.Queues(stages.DefaultTenant, "lake").Find(queue)
	if !ok {
		t.Fatalf("no queue %q", queue)
	}
	log := b.Log(stages.DefaultTenant)
	for h, err := range log.Headers(t.Context(), info.ID, stages.Beginning, log.Safe()+1) {
		if err != nil {
			t.Fatal(err)
		}
		list := segment.Pick(info.ID, []stages.Header{h})
		err := log.Bodies(t.Context(), &list, list.Appends, func(_ int, body stages.Body) error {
			for r, err := range body.Records() {
				if err != nil {
					return err
				}
				out = append(out, map[bool]string{true: "!"}[r.Sealed]+string(r.Payload))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// Sealed payloads are opened for readers after a restart and from the disk, under the key that the queue was sealed with and no other; the
// disk holds no plain text.
func TestSealedRestart(t *testing.T) {
	dir := t.TempDir()
	key := sealtest.Key(t, sealtest.Text)
	with := func(k *seal.Key) Options {
		o := options(t, dir)
		o.Key = k
		return o
	}
	b := start(t, with(key))
	pushSealed(t, b, key, "orders", `{"secret":"hunter2"}`, `"hunter2"`)
	if r := pushSealed(t, b, sealtest.Key(t, sealtest.Other), "orders", `"of another"`); !r.Stale {
		t.Errorf("another key sealed into the queue: %+v", r)
	}
	mustPush(t, b, "plain", "p", 0, 1)
	if err := b.state.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, k := range []*seal.Key{key, nil, sealtest.Key(t, sealtest.Other), key} {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b = start(t, with(k))
		got := strings.Join(payloads(t, b, "orders"), "|")
		if opened := k == key; opened != (got == `{"secret":"hunter2"}|"hunter2"`) || !opened && !strings.HasPrefix(got, `!{"encrypted":"`) {
			t.Errorf("with key %v: %s", k, got)
		}
		for queue, want := range map[string]string{"orders": key.String(), "plain": ""} {
			if info, _ := b.Queues(stages.DefaultTenant, "lake").Find(queue); info.Key != want {
				t.Errorf("with key %v: queue %s has key %q, want %q", k, queue, info.Key, want)
			}
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	secret := []byte("hunter2")
	grep(t, dir, secret)
}

// grep fails for each file below a folder that holds some bytes.
func grep(t testing.TB, dir string, secret []byte) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if bytes.Contains(data, secret) {
			t.Errorf("%s holds %q", path, secret)
		}
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("%d files, %v", files, err)
	}
}
