// Package chaos plays faults to a cluster of real processes while clients write to it, and then asks whether every promise was kept. Its
// tests are `make chaos`; there is no program here.
//
//	isolate_test.go   a network, a mount table and process ids of the suite's own: what it makes is gone with its process
//	net_test.go       three nodes and a router between them, which can be told to drop what one sends to another
//	node_test.go      a queen process, started again and again
//	bucket_test.go    the proxy in front of the S3 store: faults, and every body that was sent to a key
//	load_test.go      clients that push, and what they were told
//	kv_test.go        clients of the KV documents, and the model that their history must fit
//	faults_test.go    the kinds of faults that nodes, network and disks can have
//	lanes_test.go     which fault is played when: a seed decides
//	watch_test.go     who leads, who owns which queue
//	audit_test.go     what must hold at the end
//
// It speaks to nothing outside of its own network and signals only processes that it started.
package chaos
