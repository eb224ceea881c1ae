package lake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"queen/stages"
)

// Log is the broker's log as an audit reads it.
type Log interface {
	// Partitions returns the names of all partitions of a queue; known is false when the broker has no such queue. The error
	// wraps ErrNoPartitions where the broker cannot list them.
	Partitions(ctx context.Context, queue string) (names []string, known bool, err error)
	// Born is when the queue was made, on the clock of the stamps: what is stamped before is of another queue of that name, which was deleted. It is
	// stages.Beginning when there is no such queue, or the broker does not tell.
	Born(ctx context.Context, queue string) (stages.Micros, error)
	// Fetch returns records from offset on, about most bytes of them and at least one, and the bounds of what the log holds:
	// low <= offset < high can be read.
	Fetch(ctx context.Context, queue, partition string, offset, most int64) (rows []Row, low, high int64, err error)
}

// ErrNoPartitions says that a broker has no route that lists the partitions of a queue. Those that the lake holds are compared
// all the same; one that never reached the lake cannot be seen.
var ErrNoPartitions = errors.New("the broker does not list partitions")

// errLog wraps every failure to read the log, so that it is not taken for a fault of the lake.
var errLog = errors.New("read the broker's log")

// HTTPLog reads the log of a broker over its API (the reads by offset). It sees the default tenant.
type HTTPLog struct {
	URL    string // as in http://localhost:6632
	Client *http.Client
}

var _ Log = HTTPLog{}

const changedPath = "/api/v1/partitions/changed"

// Partitions implements Log.
func (l HTTPLog) Partitions(ctx context.Context, queue string) ([]string, bool, error) {
	var names []string
	for after := ""; ; {
		var answer struct {
			Entries []struct {
				Error      string
				Partitions []struct{ Name string }
				Next       *string
			}
		}
		entry := map[string]any{"queue": queue, "limit": 1000}
		if after != "" {
			entry["after"] = after
		}
		if err := l.post(ctx, changedPath, entry, &answer); err != nil {
			return nil, false, err
		}
		if len(answer.Entries) != 1 {
			return nil, false, fmt.Errorf("%w: %d entries in the answer for one", errLog, len(answer.Entries))
		}
		e := answer.Entries[0]
		if e.Error == "UNKNOWN_TOPIC_OR_PARTITION" {
			return nil, false, nil
		}
		if e.Error != "" {
			return nil, false, fmt.Errorf("%w: %s", errLog, e.Error)
		}
		for _, p := range e.Partitions {
			names = append(names, p.Name)
		}
		if e.Next == nil || *e.Next == "" {
			return names, true, nil
		}
		after = *e.Next
	}
}

// Born implements Log.
func (l HTTPLog) Born(ctx context.Context, queue string) (stages.Micros, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(l.URL, "/")+"/api/v1/resources/queues/"+url.PathEscape(queue), nil)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errLog, err)
	}
	resp, err := l.Client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errLog, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return stages.Beginning, nil
	}
	if resp.StatusCode != http.StatusOK {
		return 0, refusal(req.URL.Path, resp)
	}
	at, err := born(json.NewDecoder(resp.Body))
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", errLog, req.URL.Path, err)
	}
	return at, nil
}

// born reads the answer up to when the queue was made. All of its partitions come behind that, and are not waited for.
func born(d *json.Decoder) (stages.Micros, error) {
	if err := delim(d, '{'); err != nil {
		return 0, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return 0, err
		}
		var value json.RawMessage
		if name != "createdAt" {
			if err := d.Decode(&value); err != nil {
				return 0, err
			}
			continue
		}
		var text string
		if err := d.Decode(&text); err != nil {
			return 0, err
		}
		return parseISO(text)
	}
	return stages.Beginning, nil
}

// refusal is an answer that is none.
func refusal(path string, resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
	return fmt.Errorf("%w: %s answered %s: %s", errLog, path, resp.Status, text)
}

// Fetch implements Log.
func (l HTTPLog) Fetch(ctx context.Context, queue, partition string, offset, most int64) ([]Row, int64, int64, error) {
	var answer struct {
		Entries []struct {
			Error         string
			HighWatermark int64
			LogStart      int64 `json:"logStartOffset"`
			Records       []struct {
				Offset  int64
				TxID    string `json:"transactionId"`
				TS      string
				Payload json.RawMessage // the producer's own text: never parsed and printed again
			}
		}
	}
	entry := map[string]any{"queue": queue, "partition": partition, "offset": offset, "maxBytes": most}
	if err := l.post(ctx, "/api/v1/fetch", entry, &answer); err != nil {
		return nil, 0, 0, err
	}
	if len(answer.Entries) != 1 {
		return nil, 0, 0, fmt.Errorf("%w: %d entries in the answer for one", errLog, len(answer.Entries))
	}
	e := answer.Entries[0]
	if e.Error != "" && e.Error != "OFFSET_OUT_OF_RANGE" {
		return nil, 0, 0, fmt.Errorf("%w: %s of %s: %s", errLog, partition, queue, e.Error)
	}
	rows := make([]Row, len(e.Records))
	for i, r := range e.Records {
		ts, err := parseISO(r.TS)
		if err != nil {
			return nil, 0, 0, fmt.Errorf("%w: %w", errLog, err)
		}
		rows[i] = Row{Partition: partition, Offset: r.Offset, TxID: r.TxID, TS: ts, Payload: r.Payload}
	}
	return rows, e.LogStart, e.HighWatermark, nil
}

func (l HTTPLog) post(ctx context.Context, path string, entry, answer any) error {
	body, err := json.Marshal(map[string]any{"entries": []any{entry}})
	if err != nil {
		return fmt.Errorf("%w: %w", errLog, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(l.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: %w", errLog, err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := l.Client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", errLog, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound && path == changedPath {
		return ErrNoPartitions
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(path, resp)
	}
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return fmt.Errorf("%w: %s: %w", errLog, path, err)
	}
	return nil
}
