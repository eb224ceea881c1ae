package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"queen/broker/command"
	"queen/broker/seal"
	"queen/broker/seal/sealtest"
	"queen/broker/segment"
	"queen/broker/state"
	"queen/stages"
)

func withKey(t testing.TB, text string) func(*Options) {
	return func(o *Options) { o.Key = sealtest.Key(t, text) }
}

// node is the same broker behind another node, which has another key or none.
func (f *fixture) node(t testing.TB, key *seal.Key, logs *bytes.Buffer) *fixture {
	t.Helper()
	o := Options{Broker: f.direct, MaxBody: 32 << 20, Rand: &counting{n: 1 << 32}, Log: zerolog.New(logs), Now: func() time.Time { return time.Unix(1e9, 0) }, Key: key}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	f.direct.key = key
	return &fixture{f.direct, h}
}

func (f *fixture) encrypt(t testing.TB, queue string, on bool) {
	t.Helper()
	f.ok(t, http.StatusOK, "POST", "/api/v1/configure", fmt.Sprintf(`{"queue":%q,"options":{"encryptionEnabled":%v}}`, queue, on))
}

// stored returns the payloads of a queue as they lie in its log, and the flags of their appends.
func (f *fixture) stored(t testing.TB, queue string) (payloads []string, flags []uint32) {
	t.Helper()
	var view segment.View
	id := f.row(t, queue).ID
	if err := f.st.Read(func(r *state.Reader) error { view = r.Segments(id); return nil }); err != nil {
		t.Fatal(err)
	}
	for h, err := range view.Headers(stages.Beginning, 1<<62) {
		if err != nil {
			t.Fatal(err)
		}
		flags = append(flags, h.Flags)
		list := segment.Pick(id, []stages.Header{h})
		err := f.segments.Bodies(t.Context(), &list, list.Appends, func(_ int, b stages.Body) error {
			for r, err := range b.Records() {
				if err != nil {
					return err
				}
				payloads = append(payloads, string(r.Payload))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return payloads, flags
}

func (f *fixture) row(t testing.TB, queue string) (row state.QueueRow) {
	t.Helper()
	err := f.st.Read(func(r *state.Reader) error {
		found, ok := r.Queue([16]byte{15: 1}, queue)
		if !ok {
			t.Fatalf("no queue %q", queue)
		}
		row = *found
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// Every payload that is taken is stored sealed, with the weight and the flags that it has in plain text, and comes back byte for byte.
func TestSealedPayloads(t *testing.T) {
	for _, c := range payloadCases() {
		if !c.accepted {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, withKey(t, sealtest.Text))
			f.encrypt(t, "q", true)
			if w := f.do("POST", "/api/v1/push", pushBody([]byte(c.payload))); w.Code != http.StatusCreated {
				t.Fatalf("%d %.200s", w.Code, w.Body)
			}
			stored, flags := f.stored(t, "q")
			if len(stored) != 1 || len(c.payload) > 8 && strings.Contains(stored[0], c.payload) || !strings.HasPrefix(stored[0], `{"encrypted":"`) {
				t.Errorf("stored as %.200q", stored)
			}
			if want := stages.FlagSealed | map[bool]uint32{true: stages.FlagLineBreaks}[strings.ContainsAny(c.payload, "\r\n")]; flags[0] != want {
				t.Errorf("flags %d, want %d", flags[0], want)
			}
			for h, err := range f.segments.View(f.row(t, "q").ID).Headers(stages.Beginning, 1<<62) {
				if want := stages.RecordWeight(36, len("Default"), len(c.payload)); err != nil || int(h.Weight) != want {
					t.Errorf("weight %d, want %d, %v", h.Weight, want, err)
				}
			}
			if got := fetchOne(t, f, "q", "Default", 0); string(got) != c.payload {
				t.Errorf("%d bytes came back as %d: %.100q", len(c.payload), len(got), got)
			}
		})
	}
}

// Two queues of one push: what one of them seals, the other stores as it is. Two payloads that are the same are sealed as two texts, and a
// repeated push is a duplicate although its texts differ again.
func TestSealedBesideOpen(t *testing.T) {
	f := newFixture(t, withKey(t, sealtest.Text))
	f.encrypt(t, "secret", true)
	body := `{"items":[{"queue":"open","transactionId":"a","payload":[1]},{"queue":"secret","transactionId":"a","payload":[1]},` +
		`{"queue":"secret","transactionId":"b","payload":[1]},{"queue":"secret","partition":"p","payload":{"encrypted":"AA==","iv":"AA==","authTag":"AA=="}}]}`
	f.ok(t, http.StatusCreated, "POST", "/api/v1/push", body)
	if got := f.ok(t, http.StatusCreated, "POST", "/api/v1/push", body); strings.Count(got, `"duplicate"`) != 3 {
		t.Errorf("the same push again: %s", got)
	}
	open, _ := f.stored(t, "open")
	secret, _ := f.stored(t, "secret")
	if fmt.Sprint(open) != "[[1]]" || len(secret) != 4 || secret[0] == secret[1] || f.row(t, "open").Key != 0 || f.row(t, "secret").Key != f.key.Fingerprint() {
		t.Errorf("open %q, secret %q", open, secret)
	}
	if got := fetchOne(t, f, "secret", "p", 0); string(got) != `{"encrypted":"AA==","iv":"AA==","authTag":"AA=="}` {
		t.Errorf("a payload that looks like an envelope came back as %s", got)
	}
}

// A key that is turned on, off and on again: each payload is stored as the queue was configured when its push was taken, and all are read.
func TestSealingFollowsTheOption(t *testing.T) {
	f := newFixture(t, withKey(t, sealtest.Text))
	push := func(n int) { f.ok(t, http.StatusCreated, "POST", "/api/v1/push", string(pushBody(fmt.Append(nil, n)))) }
	push(0)
	f.encrypt(t, "q", true)
	push(1)
	f.encrypt(t, "q", false)
	push(2)
	f.encrypt(t, "q", true)
	push(3)
	_, flags := f.stored(t, "q")
	if want := []uint32{0, stages.FlagSealed, 0, stages.FlagSealed}; fmt.Sprint(flags) != fmt.Sprint(want) {
		t.Errorf("flags %v, want %v", flags, want)
	}
	for n := range 4 {
		if got := fetchOne(t, f, "q", "Default", int64(n)); string(got) != fmt.Sprint(n) {
			t.Errorf("%d came back as %s", n, got)
		}
	}
}

// A node without the key, or with another one, shows what is stored, takes no payload for a queue that is sealed, and says what to do. Without
// the option it takes them again.
func TestWrongAndMissingKey(t *testing.T) {
	f := newFixture(t, withKey(t, sealtest.Text))
	f.encrypt(t, "q", true)
	f.ok(t, http.StatusCreated, "POST", "/api/v1/push", string(pushBody([]byte(`{"secret":"hunter2"}`))))
	stored, _ := f.stored(t, "q")
	right := f.key.String()
	other := sealtest.Key(t, sealtest.Other)
	for _, c := range []struct {
		key  *seal.Key
		says string
	}{{nil, "has none"}, {other, "has another, " + other.String()}} {
		var logs bytes.Buffer
		g := f.node(t, c.key, &logs)
		if got := fetchOne(t, g, "q", "Default", 0); string(got) != stored[0] {
			t.Errorf("with key %v: fetch shows %s, want %s", c.key, got, stored[0])
		}
		answer := g.ok(t, http.StatusConflict, "POST", "/api/v1/push", string(pushBody([]byte(`1`))))
		for _, want := range []string{`"code":"encryption_required"`, right, c.says, "QUEEN_ENCRYPTION_KEY", "encryptionEnabled=false"} {
			if !strings.Contains(answer, want) {
				t.Errorf("with key %v: %s does not say %s", c.key, answer, want)
			}
		}
		if shown := answer + logs.String(); strings.Contains(shown, sealtest.Text) || strings.Contains(shown, "hunter2") {
			t.Errorf("a secret is shown: %s", shown)
		}
	}
	g := f.node(t, nil, new(bytes.Buffer))
	g.encrypt(t, "q", false)
	g.ok(t, http.StatusCreated, "POST", "/api/v1/push", string(pushBody([]byte(`1`))))
	back := f.node(t, sealtest.Key(t, sealtest.Text), new(bytes.Buffer))
	for n, want := range []string{`{"secret":"hunter2"}`, `1`} {
		if got := fetchOne(t, back, "q", "Default", int64(n)); string(got) != want {
			t.Errorf("with the key again: %s, want %s", got, want)
		}
	}
}

// No node ever had a key: payloads are stored as they are, and one line a minute says so. A key that comes later seals from then on.
func TestKeyThatComesLater(t *testing.T) {
	var logs bytes.Buffer
	f := newFixture(t, func(o *Options) { o.Log = zerolog.New(&logs) })
	f.encrypt(t, "q", true)
	logs.Reset()
	for range 3 {
		f.ok(t, http.StatusCreated, "POST", "/api/v1/push", string(pushBody([]byte(`"plain"`))))
	}
	if want := `{"level":"warn","queue":"q","message":"` + plainText + `"}` + "\n"; logs.String() != want {
		t.Errorf("log %q, want %q", logs.String(), want)
	}
	g := f.node(t, sealtest.Key(t, sealtest.Text), &logs)
	g.ok(t, http.StatusCreated, "POST", "/api/v1/push", string(pushBody([]byte(`"sealed"`))))
	_, flags := g.stored(t, "q")
	if fmt.Sprint(flags) != fmt.Sprint([]uint32{0, 0, 0, stages.FlagSealed}) {
		t.Errorf("flags %v", flags)
	}
	for n, want := range []string{`"plain"`, `"plain"`, `"plain"`, `"sealed"`} {
		if got := fetchOne(t, g, "q", "Default", int64(n)); string(got) != want {
			t.Errorf("offset %d: %s, want %s", n, got, want)
		}
	}
}

// configureFirst lets a configure be applied between the preparation of a push and its command.
type configureFirst struct {
	*direct
	then func()
}

func (c *configureFirst) Propose(ctx context.Context, kind command.Kind, body []byte) (any, error) {
	if then := c.then; then != nil {
		c.then = nil
		then()
	}
	return c.direct.Propose(ctx, kind, body)
}

// H10: encryption is switched on, and answered, after a push was prepared in plain text and before its command comes: nothing of it is stored
// in plain text.
func TestH10SealingRace(t *testing.T) {
	f := newFixture(t, withKey(t, sealtest.Text))
	f.encrypt(t, "q", false)
	race := &configureFirst{direct: f.direct, then: func() { f.encrypt(t, "q", true) }}
	h, err := New(Options{Broker: race, MaxBody: 1 << 20, Rand: &counting{}, Log: zerolog.Nop(), Now: time.Now, Key: f.key})
	if err != nil {
		t.Fatal(err)
	}
	g := &fixture{f.direct, h}
	g.ok(t, http.StatusCreated, "POST", "/api/v1/push", string(pushBody([]byte(`"raced"`))))
	if stored, _ := f.stored(t, "q"); len(stored) != 1 || strings.Contains(stored[0], "raced") {
		t.Errorf("stored %q", stored)
	}
	if got := fetchOne(t, f, "q", "Default", 0); string(got) != `"raced"` {
		t.Errorf("came back as %s", got)
	}
}

// What is too large sealed is 413, as every push that is too large.
func TestSealedTooLarge(t *testing.T) {
	f := newFixture(t, withKey(t, sealtest.Text))
	f.encrypt(t, "q", true)
	var body strings.Builder
	body.WriteString(`{"items":[{"queue":"q","payload":1}`)
	for range 500_000 {
		body.WriteString(`,{"queue":"q","payload":1}`)
	}
	body.WriteString(`]}`)
	before := f.proposed
	if w := f.do("POST", "/api/v1/push", []byte(body.String())); w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "bytes encoded") {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
	if f.proposed != before {
		t.Error("it was proposed")
	}
}

// A push to queues that are not sealed allocates as much with a key as without.
func TestNoCostWithoutSealing(t *testing.T) {
	push := func(change func(*Options)) float64 {
		f := newFixture(t, change)
		p, err := parsePush(pushBody([]byte(`{"a":1}`)))
		if err != nil {
			t.Fatal(err)
		}
		s := &server{o: Options{Broker: f.direct, Key: f.key}, ids: &minter{rand: &counting{}}}
		return testing.AllocsPerRun(100, func() {
			cmd, err := s.pushCommand(p, make([][16]byte, 1))
			if err != nil {
				t.Fatal(err)
			}
			s.buffers.put(cmd)
		})
	}
	if with, without := push(withKey(t, sealtest.Text)), push(nil); with != without {
		t.Errorf("%v allocations with a key, %v without", with, without)
	}
}
