package harness

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Credentials of every gateway here.
const (
	AccessKey = "queen"
	SecretKey = "queen-secret-key"
)

// Gateway is a running S3 server on a folder.
type Gateway struct {
	*Process
	Root string
	URL  string
}

// StartGateway starts a gateway with the given buckets under root.
func StartGateway(t testing.TB, root string, buckets ...string) *Gateway {
	t.Helper()
	b, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	args := append([]string{root, addr, AccessKey, SecretKey}, buckets...)
	g := &Gateway{Process: Start(t, exec.Command(b.Gateway, args...)), Root: root, URL: "http://" + addr}
	if _, err := g.WaitLine("ready", 20*time.Second); err != nil {
		t.Fatalf("gateway: %v", err)
	}
	return g
}

// Lake returns the folder of a bucket: its objects are plain files there, by key.
func (g *Gateway) Lake(bucket string) string { return filepath.Join(g.Root, "buckets", bucket) }
