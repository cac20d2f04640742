package cluster

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// cell is a key that only the leader writes, with the revision that its next write compares.
type cell struct {
	key string
	rev int64 // of its last write; 0 if it was never written
}

var errDeposed = fmt.Errorf("%w: another node was elected", ErrLost)

// leads compares the epoch: it holds while this term lasts in etcd.
func (t *Term) leads() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(t.c.keys.leader()), "=", t.epoch)
}

// fenced writes in the name of this term. If another node was elected, it writes nothing and ends
// the term.
func (t *Term) fenced(ctx context.Context, ops ...clientv3.Op) error {
	resp, _, err := t.c.members.txn(ctx, []clientv3.Cmp{t.leads()}, ops)
	if err == nil && !resp.Succeeded {
		err = t.end(errDeposed)
	}
	return err
}

// move writes a cell, and more with it, in one transaction that compares the epoch and the revision
// of the cell. It returns when that has taken effect. Any error ends the term, because the outcome
// may be unknown.
func (t *Term) move(cell *cell, value []byte, more ...clientv3.Op) error {
	leader := t.c.keys.leader()
	compare := []clientv3.Cmp{t.leads(), clientv3.Compare(clientv3.ModRevision(cell.key), "=", cell.rev)}
	if t.c.c.Unfenced {
		compare = nil
	}
	resp, found, err := t.c.members.txn(t.ctx, compare, append([]clientv3.Op{clientv3.OpPut(cell.key, string(value))}, more...), gets(leader, cell.key)...)
	switch is := found[cell.key]; {
	case err != nil:
		return t.end(fmt.Errorf("%w: %s was not written, or the answer is missing: %w", ErrLost, cell.key, err))
	case resp.Succeeded:
		cell.rev = resp.Header.Revision
	case found[leader].GetCreateRevision() != t.epoch:
		return t.end(errDeposed)
	case is.GetModRevision() > cell.rev && string(is.GetValue()) == string(value):
		cell.rev = is.ModRevision // an earlier attempt took effect, and its answer was lost
	default:
		return t.end(fmt.Errorf("%w: %s is not as this term left it", ErrLost, cell.key))
	}
	return nil
}
