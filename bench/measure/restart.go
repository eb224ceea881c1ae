package measure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"queen/bench/load"
	"queen/bench/numbers"
	"queen/bench/report"
)

// restartTarget is how long a node with 10 GB of log may take until it serves (contract 4), s.
const restartTarget = 5.0

// healthEvery is the distance of two requests to /health.
const healthEvery = 2 * time.Millisecond

// killAfter is how long pushes run before the broker is killed.
const killAfter = 3 * time.Second

func (b *Bench) restarts(ctx context.Context) (err error) {
	dir, _, err := b.log(ctx, b.Sizes.RestartMB, 100, 1000)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var clean, killed []float64
	for run := range b.Sizes.Runs {
		t, q, err := b.restart(ctx, dir)
		if err != nil {
			return err
		}
		defer q.Kill()
		clean = append(clean, t.Seconds())
		var r load.Result
		if err := b.helper(ctx, &r, b.loadArgs(q, 1, 0, run, 0, killAfter)...); err != nil {
			return err
		}
		q.Kill()
		if t, q, err = b.restart(ctx, dir); err != nil {
			return err
		}
		defer q.Kill()
		killed = append(killed, t.Seconds())
		if err := q.Stop(stopLimit); err != nil {
			return err
		}
	}
	return b.restartLines(clean, killed)
}

func (b *Bench) restartLines(clean, killed []float64) error {
	for _, l := range []struct {
		what  string
		times []float64
	}{{"after a stop", clean}, {fmt.Sprintf("after kill -9 %s into full pushes", killAfter), killed}} {
		t := numbers.Median(l.times)
		err := b.add(report.Line{Row: "restart.ready", What: fmt.Sprintf("restart with %.1f GB of log, %s", float64(b.Sizes.RestartMB)/1000, l.what), Target: "< 5 s with 10 GB",
			Measured: fmt.Sprintf("%.2f s", t), Ratio: fmt.Sprintf("%.2f", t/restartTarget), Result: report.AtMost(t, restartTarget, b.Sizes.RestartMB >= 10_000),
			Notes: []string{"s from exec to the first 200 of /health: " + numbers.List(l.times, 2), "the log's size is that of its payloads, in appends of 100 over 1000 partitions; the page cache is warm",
				"QUEEN_RAFT_DIR=… queen"}}, "-only restart -restart-mb", strconv.Itoa(b.Sizes.RestartMB))
		if err != nil {
			return err
		}
	}
	return nil
}

// restart starts a broker on a folder and measures how long it takes to be healthy.
func (b *Bench) restart(ctx context.Context, dir string) (time.Duration, *broker, error) {
	port, err := freePort()
	if err != nil {
		return 0, nil, err
	}
	began := time.Now()
	q, err := b.start(ctx, dir, map[string]string{"PORT": strconv.Itoa(port)})
	if err != nil {
		return 0, nil, err
	}
	q.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	for {
		if healthy(ctx, q.url) {
			return time.Since(began), q, nil
		}
		select {
		case <-q.Done():
			return 0, nil, fmt.Errorf("the broker ended: %q", tail(q.Lines(), 10))
		case <-limit.C:
			q.Kill()
			return 0, nil, fmt.Errorf("not healthy within %s: %q", startLimit, tail(q.Lines(), 10))
		case <-time.After(healthEvery):
		}
	}
}

func healthy(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
