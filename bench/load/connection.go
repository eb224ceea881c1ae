package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"queen/bench/records"
)

// pushLimit is how long one push may take before the load is an error.
const pushLimit = 30 * time.Second

// body is the request of one connection, head and all. Only ids and partitions change from push to push.
type body struct {
	bytes      []byte
	partitions []int // where each item's partition number is
	ids        []int // where each item's transaction id is
}

// digits is how many a partition's number has.
const digits = 4

func newBody(o Options, connection int) *body {
	b := &body{}
	var text []byte
	text = append(text, `{"items":[`...)
	for i := range o.Batch {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, `{"queue":"`+o.Queue+`","partition":"p-`...)
		b.partitions = append(b.partitions, len(text))
		text = append(text, "0000"...)
		text = append(text, `","transactionId":"`...)
		b.ids = append(b.ids, len(text))
		text = records.AppendTxID(text, 0, 0)
		text = append(text, `","payload":`...)
		text = records.AppendPayload(text, uint64(connection*o.Batch+i), o.Payload)
		text = append(text, '}')
	}
	text = append(text, "]}"...)
	head := fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", o.Address, len(text))
	for i := range o.Batch {
		b.partitions[i] += len(head)
		b.ids[i] += len(head)
	}
	b.bytes = append([]byte(head), text...)
	return b
}

// set writes the ids and partitions of push number n of a connection.
func (b *body) set(o Options, connection int, n uint64) {
	first := (n*uint64(o.Connections) + uint64(connection)) * uint64(o.Spread)
	for i := range b.ids {
		partition := (first + uint64(i%o.Spread)) % uint64(o.Partitions)
		at := b.partitions[i]
		for d := digits - 1; d >= 0; d-- {
			b.bytes[at+d] = byte('0' + partition%10)
			partition /= 10
		}
		records.PutTxID(b.bytes[b.ids[i]:], o.Run, (n*uint64(o.Connections)+uint64(connection))*uint64(o.Batch)+uint64(i))
	}
}

// connection pushes one push after the other until ctx ends.
func connection(ctx context.Context, o Options, number int, began time.Time, p *phase) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", o.Address)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("load: %w", err)
	}
	defer c.Close()
	b, r := newBody(o, number), bufio.NewReaderSize(c, 64<<10)
	var answer bytes.Buffer
	for n := uint64(0); ctx.Err() == nil; n++ {
		due, ok := turn(ctx, o, number, n, began)
		if !ok {
			return nil
		}
		b.set(o, number, n)
		if err := c.SetDeadline(time.Now().Add(pushLimit)); err != nil {
			return fmt.Errorf("load: %w", err)
		}
		if err := push(c, r, b.bytes, o.Batch, &answer); err != nil {
			return fmt.Errorf("load: push %d of connection %d: %w", n, number, err)
		}
		p.note(due, time.Now())
	}
	return nil
}

// turn waits until push n of a connection is due and says when that was. A push that is late because the one before took long is
// counted from when it was due, or a slow broker would be asked less and look fast.
func turn(ctx context.Context, o Options, number int, n uint64, began time.Time) (time.Time, bool) {
	if o.Rate == 0 {
		return time.Now(), true
	}
	every := time.Duration(float64(time.Second) * float64(o.Batch) * float64(o.Connections) / float64(o.Rate))
	due := began.Add(every*time.Duration(n) + every*time.Duration(number)/time.Duration(o.Connections))
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return due, true
	case <-ctx.Done():
		return due, false
	}
}

var queued = []byte(`"status":"queued"`)

// push sends one request and reads its answer.
func push(c io.Writer, r *bufio.Reader, request []byte, batch int, answer *bytes.Buffer) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer.Reset()
	if _, err := answer.ReadFrom(resp.Body); err != nil {
		return err
	}
	if n := bytes.Count(answer.Bytes(), queued); resp.StatusCode != http.StatusCreated || n != batch {
		return fmt.Errorf("%s, %d of %d queued: %.300s", resp.Status, n, batch, answer.Bytes())
	}
	return nil
}
