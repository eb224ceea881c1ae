package config

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// defaultRaftPort is that of other nodes where nothing names one.
const defaultRaftPort = "7400"

// several returns the cluster that a setting is about.
func (c *Config) several() *Cluster {
	if c.Cluster == nil {
		c.Cluster = &Cluster{}
	}
	return c.Cluster
}

func parsePeers(_ *Setting, c *Config, _ environment, v string) error {
	cluster := c.several()
	for _, one := range strings.Split(v, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		p, err := parsePeer(one)
		if err != nil {
			return fmt.Errorf("QUEEN_RAFT_PEERS: %w", err)
		}
		for _, other := range cluster.Peers {
			switch {
			case other.ID == p.ID:
				return fmt.Errorf("QUEEN_RAFT_PEERS names node %d twice", p.ID)
			case other.Raft == p.Raft:
				return fmt.Errorf("QUEEN_RAFT_PEERS gives node %d and node %d the raft address %s", other.ID, p.ID, p.Raft)
			}
		}
		cluster.Peers = append(cluster.Peers, p)
		if p.ID == c.NodeID {
			cluster.Self = p
		}
	}
	return nil
}

func parsePeer(text string) (p Peer, err error) {
	id, rest, ok := strings.Cut(text, "=")
	raft, http, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 {
		return p, fmt.Errorf("%q is not id=host:raftport/host:httpport", text)
	}
	if p.ID, err = strconv.Atoi(strings.TrimSpace(id)); err != nil || p.ID < 1 {
		return p, fmt.Errorf("%q: %q is no node id, it must be a whole number from 1", text, id)
	}
	for _, a := range []struct {
		what, value string
		into        *string
	}{{"raft", raft, &p.Raft}, {"HTTP", http, &p.HTTP}} {
		if !isHostPort(a.value) {
			return p, fmt.Errorf("%q: the %s address %q is no host:port", text, a.what, a.value)
		}
		*a.into = a.value
	}
	return p, nil
}

func isHostPort(v string) bool {
	host, port, err := net.SplitHostPort(v)
	n, err2 := strconv.ParseUint(port, 10, 16)
	return err == nil && err2 == nil && host != "" && n > 0
}

func parseJoin(s *Setting, c *Config, _ environment, v string) error {
	join, err := s.boolean(v)
	if join {
		c.several().Join = true
	}
	return err
}

func parseListen(_ *Setting, c *Config, _ environment, v string) error {
	if _, port, err := net.SplitHostPort(v); err != nil || port == "" {
		return fmt.Errorf("QUEEN_RAFT_LISTEN=%q is no host:port", v)
	}
	c.several().Listen = v
	return nil
}

func parseToken(_ *Setting, c *Config, _ environment, v string) error {
	c.several().Token = Secret(v)
	return nil
}

func parseTLS(file func(*TLS) *string) func(*Setting, *Config, environment, string) error {
	return func(_ *Setting, c *Config, _ environment, v string) error {
		*file(&c.several().TLS) = v
		return nil
	}
}

// whole reports a file of the three that is missing.
func (t TLS) whole() error {
	var without []string
	for _, f := range []struct{ env, file string }{{"QUEEN_RAFT_TLS_CERT", t.Cert}, {"QUEEN_RAFT_TLS_KEY", t.Key}, {"QUEEN_RAFT_TLS_CA", t.CA}} {
		if f.file == "" {
			without = append(without, f.env)
		}
	}
	if n := len(without); n == 0 || n == 3 {
		return nil
	}
	return fmt.Errorf("QUEEN_RAFT_TLS_CERT, QUEEN_RAFT_TLS_KEY and QUEEN_RAFT_TLS_CA belong together: not set: %s", strings.Join(without, ", "))
}

// checkCluster looks at the settings of a cluster together, and fills in what follows from them.
func (c *Config) checkCluster() error {
	k := c.Cluster
	if k == nil {
		return nil
	}
	if err := k.TLS.whole(); err != nil {
		return err
	}
	if len(k.Peers) == 0 && !k.Join && k.Listen == "" { // a token or a certificate alone opens no port
		c.Cluster = nil
		return nil
	}
	if len(k.Peers) > 0 && k.Self.ID == 0 && !k.Join {
		return fmt.Errorf("QUEEN_RAFT_PEERS does not name this node, which is node %d (QUEEN_RAFT_NODE_ID)", c.NodeID)
	}
	if k.Token == "" {
		return errors.New("QUEEN_RAFT_TOKEN is not set: it is the secret that every node of a cluster has to know before another one speaks with it")
	}
	if k.Listen == "" {
		port := defaultRaftPort
		if _, own, err := net.SplitHostPort(k.Self.Raft); err == nil {
			port = own
		}
		k.Listen = net.JoinHostPort("0.0.0.0", port)
	}
	return nil
}
