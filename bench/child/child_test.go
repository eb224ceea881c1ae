package child

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"
)

func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(t.Context(), "/bin/sh", []string{"-c", script}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestLines(t *testing.T) {
	p := shell(t, "echo one; echo two >&2; echo three")
	if l, err := p.WaitLine(t.Context(), "thr"); err != nil || l.Text != "three" || l.At.IsZero() {
		t.Errorf("%v %v", l, err)
	}
	if _, err := p.WaitLine(t.Context(), "four"); err == nil || !strings.Contains(err.Error(), "one") {
		t.Errorf("%v", err)
	}
}

func TestStop(t *testing.T) {
	polite := shell(t, "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done")
	if _, err := polite.WaitLine(t.Context(), "ready"); err != nil {
		t.Fatal(err)
	}
	if err := polite.Stop(10 * time.Second); err != nil {
		t.Error(err)
	}
	stubborn := shell(t, "trap '' TERM; echo ready; exec tail -f /dev/null")
	if _, err := stubborn.WaitLine(t.Context(), "ready"); err != nil {
		t.Fatal(err)
	}
	if err := stubborn.Stop(10 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not end") {
		t.Errorf("%v", err)
	}
	if syscall.Kill(stubborn.Pid(), 0) == nil {
		t.Error("it still runs")
	}
}

func TestContextKills(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := Start(ctx, "/bin/sh", []string{"-c", "exec tail -f /dev/null"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-p.Done()
}

func TestResult(t *testing.T) {
	var got struct{ A int }
	if err := shell(t, `echo noise; echo '{"A":5}'`).Result(&got); err != nil || got.A != 5 {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range []string{"echo no json", "true", `echo '{"A":5}'; exit 3`} {
		if err := shell(t, bad).Result(&got); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}
