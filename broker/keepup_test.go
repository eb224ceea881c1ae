package broker

import (
	"fmt"
	"testing"

	"queen/broker/command"
	"queen/stages"
)

const minute = stages.Micros(60_000_000)

// TestRetentionWaitsForASinkThatKeepsUp: retention of 60 s under windows of 5 minutes loses nothing, although every record is past its deadline
// long before its window closes (contract S10); neither does maxWaitTimeSeconds. A sink that falls further behind than two windows, the guard and a
// minute loses, and says each offset; with a hold it does not, up to the cap.
func TestRetentionWaitsForASinkThatKeepsUp(t *testing.T) {
	for _, tc := range []struct {
		name    string
		options []command.Option
		upload  stages.Micros // from the end of a window to its pointer
		loses   bool
	}{
		{"at once", seconds(60, 0, 0), 0, false},
		{"within a window", seconds(60, 0, 0), 5 * minute, false},
		{"maxWaitTimeSeconds", seconds(0, 60, 0), 5 * minute, false},
		{"too slow", seconds(60, 0, 0), 25 * minute, true},
		{"too slow, held", seconds(60, 0, 3600), 25 * minute, false},
		{"too slow, held for less", seconds(60, 0, 600), 25 * minute, true},
		{"too slow, held, maxWaitTimeSeconds", seconds(0, 60, 3600), 25 * minute, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAudit(t, 1)
			l := a.lakes[0]
			for other := range a.pushed {
				other.adopted = other == l
			}
			a.put(l, "start", fmt.Sprintf(`{"start":"earliest","wait":%d}`, 2*5*minute+5_000_000+minute))
			a.apply(command.KindConfigure, command.Configure{Tenant: a.tenant(), Queue: l.queue, Options: tc.options}.Append(nil))
			l.at = stages.Beginning
			var first, closed stages.Micros // stamp of the open window's first record; when its end was decided
			for range 1440 {                // two hours
				a.push(l.queue)
				if a.at += 5_000_000; first == 0 {
					first = a.at
				}
				switch {
				case l.end == 0 && a.at-first >= 5*minute:
					closed, first = a.at, 0
					a.begin(l, a.at-5_000_000)
					a.list(l)
				case l.end != 0 && a.at-closed >= tc.upload:
					a.commit(l)
				}
				for a.retain() {
				}
			}
			if (a.lost > 0) != tc.loses || a.objects == 0 {
				t.Errorf("%d records in objects, %d lost", a.objects, a.lost)
			}
			for _, other := range a.lakes[1:] {
				other.adopted = false
			}
			a.end()
			a.n.close()
		})
	}
}

// seconds are the options of a queue: retentionSeconds, maxWaitTimeSeconds, and the cap of a hold; 0 = not set.
func seconds(retention, most, hold int64) []command.Option {
	options := []command.Option{{Number: command.OptRetentionEnabled, Type: command.TypeBool, Bool: true},
		{Number: command.OptRetentionSeconds, Type: command.TypeInt, Int: retention},
		{Number: command.OptMaxWaitTimeSeconds, Type: command.TypeInt, Int: most}}
	if hold > 0 {
		options = append(options, command.Option{Number: command.OptRetentionSinkHold, Type: command.TypeString, Str: "default"},
			command.Option{Number: command.OptRetentionSinkHoldMaxSeconds, Type: command.TypeInt, Int: hold})
	}
	return options
}
