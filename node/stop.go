package node

import (
	"context"
	"errors"
	"time"

	"queen/internal/logline"
)

// listenerGrace is how long answers may take once the node stops; long polls are answered at once.
const listenerGrace = 30 * time.Second

// Close stops the node in order: nothing is accepted any more, /health is 503 and long polls are answered; the sink drains
// beside that and releases its leases, for at most QUEEN_S3_SHUTDOWN_GRACE_MS; then the broker flushes and closes. When ctx ends
// before, what is left is cut short, which loses nothing (contract S13). It is safe to call twice.
func (n *Node) Close(ctx context.Context) error {
	n.close.Do(func() {
		close(n.stopping)
		drained := n.sink.drain(ctx)
		n.err = errors.Join(n.stopServing(ctx), <-drained, n.broker.Close())
		log := logline.Named(n.o.Log, "queen")
		if n.err == nil {
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
	err := n.server.Shutdown(patience)
	if err != nil {
		err = errors.Join(err, n.server.Close())
	}
	n.serving.Wait()
	return err
}
