package procfs

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const behind = " S 1 2 3 0 -1 4194560 100 0 0 0 250 75 0 0 20 0 9 0 12345 1000 200 18446744073709551615"
	for _, name := range []string{"(queen)", "(a b)", "(odd) 1 2)"} {
		got, err := ParseStat("4711 " + name + behind)
		if err != nil || got != 3250*time.Millisecond {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "1 queen S 1", "1 (queen) S 1 2", "1 (queen) S 1 2 3 0 -1 4 1 0 0 0 x 75 0"} {
		if got, err := ParseStat(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

func TestParseStatus(t *testing.T) {
	const text = "Name:\tqueen\nVmHWM:\t    2048 kB\nVmRSS:\t  1024 kB\nRssAnon:\t     512 kB\nRssFile:\t 512 kB\nThreads:\t9\n"
	got, err := ParseStatus(text)
	if want := (Memory{Anon: 512 << 10, RSS: 1 << 20, High: 2 << 20}); err != nil || got != want {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range []string{"", strings.Replace(text, "RssAnon", "RssOther", 1), strings.Replace(text, "512 kB", "512 MB", 1),
		strings.Replace(text, "2048", "many", 1)} {
		if got, err := ParseStatus(bad); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

func TestOfThisProcess(t *testing.T) {
	if m, err := ReadMemory(os.Getpid()); err != nil || m.Anon <= 0 || m.High < m.RSS {
		t.Errorf("%+v %v", m, err)
	}
	if _, err := CPU(os.Getpid()); err != nil {
		t.Error(err)
	}
	if _, err := CPU(-1); err == nil {
		t.Error("a process -1 was found")
	}
}

func TestGoroutines(t *testing.T) {
	dump := strings.Split(`SIGQUIT: quit
PC=0x48 m=0 sigcode=0

goroutine 0 gp=0x7 m=0 mp=0x7 [idle]:
runtime.futex()

goroutine 1 gp=0xc00 m=nil [select, 2 minutes]:
main.main()
	created by goroutine 5
goroutine 18 [chan receive]:
x.y()
`, "\n")
	if n := Goroutines(dump); n != 2 {
		t.Errorf("%d goroutines", n)
	}
}

func TestEnded(t *testing.T) {
	before := Ended()
	if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if after := Ended(); after <= before {
		t.Errorf("%s after, %s before", after, before)
	}
}
