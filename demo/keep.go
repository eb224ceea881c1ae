package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// keep goes on after the tour: two orders a second, and a line whenever a window reaches the bucket, until the person who watches ends it.
func keep(ctx context.Context, url string, out io.Writer) error {
	fmt.Fprintf(out, "\nOrders go on, two a second, until you press Ctrl-C. Look at %s/status, or at the lake.\n", url)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	seen, err := status(ctx, url)
	for n := 3; err == nil; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err = order(ctx, url, n); err != nil {
			break
		}
		var now row
		if now, err = status(ctx, url); err == nil && now.K > seen.K {
			seen = now
			fmt.Fprintf(out, "    window %d is in the bucket: %d orders pushed, %d mirrored\n", now.K, n, now.Records)
		}
	}
	if ctx.Err() != nil {
		return nil // told to end while a request was under way
	}
	return err
}

// order pushes one more order of one of seven customers.
func order(ctx context.Context, url string, n int) error {
	body := fmt.Sprintf(`{"items":[{"queue":"orders","partition":"cust-%d","payload":{"order":%d,"status":"new","total":%d.50}}]}`, 1+n%7, n, n%90)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/api/v1/push", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	_, err = send(req)
	return err
}
