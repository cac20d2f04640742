package etcdstore

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// cell is a key that only the leader writes, and what it compares.
type cell struct {
	key string
	rev int64 // of its last write; 0 if it was never written
}

// move writes a cell, and more with it, in one transaction that compares the epoch and
// the revision of the cell. It returns when that has taken effect. Any error ends the term:
// after it, the outcome may be unknown.
func (t *Term) move(cell *cell, value []byte, more ...clientv3.Op) error {
	leader := t.c.keys.leader()
	compare := []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(leader), "=", t.epoch),
		clientv3.Compare(clientv3.ModRevision(cell.key), "=", cell.rev),
	}
	if t.c.c.Unfenced {
		compare = nil
	}
	resp, err := ask(t.ctx, t.c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).If(compare...).
			Then(append([]clientv3.Op{clientv3.OpPut(cell.key, string(value))}, more...)...).
			Else(clientv3.OpGet(leader), clientv3.OpGet(cell.key)).Commit()
	})
	if err != nil {
		return t.end(fmt.Errorf("%w: %s was not written, or was without an answer: %w", ErrLost, cell.key, err))
	}
	if resp.Succeeded {
		cell.rev = resp.Header.Revision
		return nil
	}
	var epoch, rev int64
	var is string
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().GetKvs() {
			if string(kv.Key) == leader {
				epoch = kv.CreateRevision
			} else {
				rev, is = kv.ModRevision, string(kv.Value)
			}
		}
	}
	switch {
	case epoch != t.epoch:
		return t.end(fmt.Errorf("%w: another was elected", ErrLost))
	case rev > cell.rev && is == string(value):
		// An earlier attempt has taken effect, and its answer was lost.
		cell.rev = rev
		return nil
	}
	return t.end(fmt.Errorf("%w: %s is not as this term has left it", ErrLost, cell.key))
}
