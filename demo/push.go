package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

func client() *http.Client { return &http.Client{Timeout: 10 * time.Second} }

// records are the three of the user guide. 42.00 must still be 42.00 in the bucket.
func records() []string {
	return []string{
		`{"queue":"orders","partition":"cust-1","payload":{"order":1,"status":"new","total":42.00}}`,
		`{"queue":"orders","partition":"cust-2","payload":{"order":2,"status":"new","total":17.50}}`,
		`{"queue":"orders","partition":"cust-1","payload":{"order":1,"status":"paid","total":42.00}}`,
	}
}

func push(ctx context.Context, url string, out io.Writer) error {
	for _, r := range records() {
		fmt.Fprintln(out, "    "+r)
	}
	body := `{"items":[` + strings.Join(records(), ",") + `]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/api/v1/push", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := send(req)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Queen answered: %.200s…\n", answer)
	return nil
}

func send(req *http.Request) ([]byte, error) {
	resp, err := client().Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, resp.Status, text)
	}
	return bytes.TrimSpace(text), nil
}

// row is what the demo reads of a queue in /status.
type row struct {
	State            string
	K                int
	WindowsCommitted int
	Records          int
	LastError        *struct{ Message string }
}

func status(ctx context.Context, url string) (row, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/status", nil)
	if err != nil {
		return row{}, err
	}
	text, err := send(req)
	if err != nil {
		return row{}, err
	}
	var s struct {
		S3 struct{ Sinks []struct{ Queues []row } }
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return row{}, fmt.Errorf("GET /status: %w", err)
	}
	if len(s.S3.Sinks) == 0 || len(s.S3.Sinks[0].Queues) == 0 {
		return row{State: "starting"}, nil
	}
	return s.S3.Sinks[0].Queues[0], nil
}

// waitForWindows shows what the sink does until all records are in committed windows.
func waitForWindows(ctx context.Context, url string, out io.Writer) error {
	fmt.Fprintln(out, "\nA window closes when its first record is 10 s old on the broker's clock:")
	start := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		r, err := status(ctx, url)
		if err != nil {
			return err
		}
		line := fmt.Sprintf("    %4.1f s  %-9s k=%d windowsCommitted=%d records=%d", time.Since(start).Seconds(), r.State, r.K, r.WindowsCommitted, r.Records)
		if r.LastError != nil {
			line += "  " + r.LastError.Message
		}
		fmt.Fprintln(out, line)
		if r.Records >= len(records()) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return errors.New("ended before the window was in the bucket")
			}
			return fmt.Errorf("the records did not reach the bucket in %s: %w", patience, ctx.Err())
		}
	}
}
