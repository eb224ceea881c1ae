package node

import (
	"context"
	"errors"
	"time"

	"queen/internal/logline"
)

// Once the node stops, long polls are answered at once, and others have this long.
const (
	bodyGrace     = 2 * time.Second  // for a request to come in: who has sent no more until then is cut off
	listenerGrace = 30 * time.Second // for an answer to be made and to be read
)

// Close stops the node in order: nothing is accepted any more, /health is 503 and long polls are answered; the sink drains
// beside that and releases its leases, for at most QUEEN_S3_SHUTDOWN_GRACE_MS; then the broker flushes and closes. When ctx ends
// before, what is left is cut short, which loses nothing (contract S13). It is safe to call twice.
func (n *Node) Close(ctx context.Context) error {
	n.close.Do(func() {
		close(n.stopping)
		drained := n.sink.drain(ctx)
		n.err = errors.Join(n.stopServing(ctx), <-drained)
		if n.broker != nil {
			n.err = errors.Join(n.err, n.broker.Close())
		}
		if n.err == nil && n.opened {
			log := logline.Named(n.o.Log, "queen")
			log.Info().Msg("stopped")
		}
	})
	return n.err
}

func (n *Node) stopServing(ctx context.Context) error {
	if n.server == nil {
		if n.listener != nil {
			return n.listener.Close()
		}
		return nil
	}
	patience, cancel := context.WithTimeout(ctx, listenerGrace)
	defer cancel()
	log := logline.Named(n.o.Log, "queen")
	late := time.AfterFunc(bodyGrace, func() {
		if cut := n.incoming.cut(); cut > 0 {
			log.Warn().Int("requests", cut).Msg("requests that did not come to their end were cut off")
		}
	})
	defer late.Stop()
	err := n.server.Shutdown(patience)
	if err != nil {
		if patience.Err() != nil { // the clients are what is slow, which is no failure of the stop
			log.Warn().Msg("connections that were still in use were cut off")
			err = nil
		}
		err = errors.Join(err, n.server.Close())
	}
	n.serving.Wait()
	return err
}
