package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestPushedTransactionID: an answer shows a transaction id in one form, however the producer escaped it.
func TestPushedTransactionID(t *testing.T) {
	f := newFixture(t, nil)
	for sent, shown := range map[string]string{`A\u0042/é`: `AB/é`, `A\/\"`: `A/\"`, `plain \u0001\n`: `plain \u0001\n`, "é\u2028": "é\u2028"} {
		answer := f.ok(t, http.StatusCreated, "POST", "/api/v1/push", `{"items":[{"queue":"q","transactionId":"`+sent+`","payload":1}]}`)
		if !strings.Contains(answer, `"transaction_id":"`+shown+`"`) {
			t.Errorf("%s is shown as %s", sent, answer)
		}
	}
}

// TestPushBuffers: pushes of all sizes at once, whose buffers are used again and again, store their own bytes and get their own answers.
func TestPushBuffers(t *testing.T) {
	f := newFixture(t, nil)
	payload := func(g, i int) string {
		return fmt.Sprintf(`{"g":%d,"i":%d,"x":"%s"}`, g, i, strings.Repeat(string(rune('a'+g)), (g*i*997)%90_000))
	}
	var all sync.WaitGroup
	for g := range 6 {
		all.Go(func() {
			for i := range 12 {
				plain, escaped := fmt.Sprintf("plain-%d-%d é", g, i), fmt.Sprintf("escaped-%d-%d \" \\ \n\u0001", g, i)
				quoted, err := json.Marshal(escaped)
				if err != nil {
					t.Error(err)
					return
				}
				body := fmt.Sprintf(`{"items":[{"queue":"q","partition":"%d","transactionId":"%s","payload":%s},{"queue":"q","partition":"%d-b","transactionId":%s,"payload":%s}]}`,
					g, plain, payload(g, i), g, quoted, payload(g, i))
				w := f.do("POST", "/api/v1/push", []byte(body))
				var answer []pushed
				if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusCreated || len(answer) != 2 ||
					answer[0].TransactionID != plain || answer[1].TransactionID != escaped || answer[1].Offset != int64(i) {
					t.Errorf("%d: %+v %v", w.Code, answer, err)
				}
			}
		})
	}
	all.Wait()
	for g := range 6 {
		for i := range 12 {
			for _, partition := range []string{fmt.Sprint(g), fmt.Sprint(g, "-b")} {
				if got := fetchOne(t, f, "q", partition, int64(i)); string(got) != payload(g, i) {
					t.Errorf("partition %s, offset %d: %.100s", partition, i, got)
				}
			}
		}
	}
}
