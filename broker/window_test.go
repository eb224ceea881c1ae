package broker

import (
	"errors"
	"strings"
	"testing"

	"queen/stages"
)

func TestOpenWindow(t *testing.T) {
	const base = "s3:lake:orders:"
	const iso, isoMicros = "2026-11-29T10:00:00.000005Z", stages.Micros(1795946400000005)
	intent := func(k, end string) string { return `{"k":` + k + `,"tStart":3,"tEnd":` + end + `,"new":[1]}` }
	tests := []struct {
		name string
		k    uint64
		rows map[string]string
		from stages.Micros
		end  stages.Micros
		err  string // "" = none; "no intent" = ErrNoIntent
	}{
		{"first window, latest", 1, map[string]string{"intent": intent("1", "900"), "start": `{"start":"latest","t":17}`}, 17, 900, ""},
		{"first window, earliest", 1, map[string]string{"intent": intent("1", "900"), "start": `{"start":"earliest"}`}, stages.Beginning, 900, ""},
		{"next window", 8, map[string]string{"intent": intent("8", "1795946400000006"), "committed": `{"k":7,"tEnd":"` + iso + `"}`, "start": `{"start":"earliest"}`}, isoMicros, 1795946400000006, ""},
		{"pointer with an integer", 8, map[string]string{"intent": intent("8", "901"), "committed": `{"k":7,"tEnd":900}`}, 900, 901, ""},
		{"nothing applied", 1, map[string]string{}, 0, 0, "no intent"},
		{"intent of an earlier window", 8, map[string]string{"intent": intent("7", "900"), "committed": `{"k":7,"tEnd":800}`}, 0, 0, "no intent"},
		{"intent of a later window", 8, map[string]string{"intent": intent("9", "900"), "committed": `{"k":7,"tEnd":800}`}, 0, 0, "no intent"},
		{"already committed", 8, map[string]string{"intent": intent("8", "900"), "committed": `{"k":8,"tEnd":900}`}, 0, 0, "no intent"},
		{"pointer too far behind", 8, map[string]string{"intent": intent("8", "900"), "committed": `{"k":6,"tEnd":700}`}, 0, 0, "no intent"},
		{"a later window without pointer", 8, map[string]string{"intent": intent("8", "900"), "start": `{"start":"earliest"}`}, 0, 0, "no intent"},
		{"first window with a pointer", 1, map[string]string{"intent": intent("1", "900"), "committed": `{"k":1,"tEnd":900}`}, 0, 0, "no intent"},
		{"intent without a bound", 1, map[string]string{"intent": `{"k":1}`, "start": `{"start":"earliest"}`}, 0, 0, "no intent"},
		{"no start row", 1, map[string]string{"intent": intent("1", "900")}, 0, 0, "s3:lake:orders:start is missing"},
		{"start row without a time", 1, map[string]string{"intent": intent("1", "900"), "start": `{"start":"latest"}`}, 0, 0, "s3:lake:orders:start: t is missing"},
		{"damaged pointer", 2, map[string]string{"intent": intent("2", "900"), "committed": `{"k":1,"tEnd":"soon"}`}, 0, 0, "s3:lake:orders:committed: time"},
		{"a pointer of no window", 1, map[string]string{"intent": intent("1", "900"), "committed": `{"k":0,"tEnd":0}`}, 0, 0, "counted from 1"},
		{"an intent that is no object is not applied here yet", 1, map[string]string{"intent": `17`, "start": `{"start":"earliest"}`}, 0, 0, "no intent"},
		{"a stamp beside earliest", 1, map[string]string{"intent": intent("1", "900"), "start": `{"start":"earliest","t":5}`}, 0, 0, "neither earliest nor latest"},
		{"end below the position", 2, map[string]string{"intent": intent("2", "900"), "committed": `{"k":1,"tEnd":1000}`}, 0, 0, "below its position"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			from, end, err := openWindow(func(key string) ([]byte, error) {
				name, ok := strings.CutPrefix(key, base)
				if !ok {
					t.Fatalf("key %q", key)
				}
				if text, ok := tt.rows[name]; ok {
					return []byte(text), nil
				}
				return nil, nil
			}, base, tt.k)
			switch {
			case tt.err == "no intent":
				if !errors.Is(err, stages.ErrNoIntent) {
					t.Errorf("error %v, want ErrNoIntent", err)
				}
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) || errors.Is(err, stages.ErrNoIntent) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
			case err != nil || from != tt.from || end != tt.end:
				t.Errorf("[%d, %d), %v, want [%d, %d)", from, end, err, tt.from, tt.end)
			}
		})
	}
}
