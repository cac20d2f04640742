package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// trimTime is the time between looks at what can be trimmed.
const trimTime = 2 * time.Second

// tailBounds keeps account of the tail in etcd.
type tailBounds struct {
	mu      sync.Mutex
	from    trimmed
	written uint64
	// ends are the sizes after the transactions of this term that are in the tail; those
	// before it are not known.
	ends  []trimmed
	alarm error // why etcd takes no writes
}

// wrote notes a transaction.
func (b *tailBounds) wrote(serial, written uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written = written
	b.ends = append(b.ends, trimmed{serial, written})
}

// cut gives the new beginning of the tail, if all up to serial is trimmed.
func (b *tailBounds) cut(serial uint64) trimmed {
	b.mu.Lock()
	defer b.mu.Unlock()
	to := trimmed{serial, b.from.written}
	for _, e := range b.ends {
		if e.serial > serial {
			break
		}
		to.written = e.written
	}
	return to
}

// begin moves the beginning.
func (b *tailBounds) begin(from trimmed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.from = from
	for len(b.ends) > 0 && b.ends[0].serial <= from.serial {
		b.ends = b.ends[1:]
	}
}

func (b *tailBounds) size() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(b.written - b.from.written)
}

// Room says why nothing may be written at the moment. It is quick.
func (t *Term) Room() error {
	if size, bound := t.tail.size(), t.c.c.TailBound; size > bound {
		return fmt.Errorf("etcdstore: %d bytes lie in etcd that no other node has, more than %d: no standby keeps up", size, bound)
	}
	t.tail.mu.Lock()
	defer t.tail.mu.Unlock()
	return t.tail.alarm
}

// keepTail trims the tail and looks whether etcd takes writes, until the term is over.
func (t *Term) keepTail() {
	for wait(t.ctx, trimTime) == nil {
		nodes, err := t.c.nodes(t.ctx)
		if err == nil {
			err = errors.Join(t.trim(nodes), t.rotate(nodes))
		}
		if err == nil {
			err = t.share()
		}
		if err != nil && t.ctx.Err() == nil {
			t.c.log.Warn("the tail in etcd was not trimmed", "error", err)
		}
		t.lookForAlarms()
	}
}

// lookForAlarms finds out whether a member of etcd is out of space or corrupt.
func (t *Term) lookForAlarms() {
	ctx, cancel := context.WithTimeout(t.ctx, firstAttempt)
	defer cancel()
	client, _ := t.c.members.pick()
	resp, err := client.AlarmList(ctx)
	if err != nil {
		return // what that means, the lease finds out
	}
	var alarm error
	for _, a := range resp.Alarms {
		alarm = errors.Join(alarm, fmt.Errorf("etcdstore: the member %x of etcd has raised the alarm %s", a.MemberID, a.Alarm))
	}
	t.tail.mu.Lock()
	t.tail.alarm = alarm
	t.tail.mu.Unlock()
}

// trim deletes from the tail what the nodes have, and has it compacted away.
func (t *Term) trim(nodes []Node) error {
	t.tail.mu.Lock()
	from := t.tail.from
	t.tail.mu.Unlock()
	serial := trimTo(nodes, t.c.c.Node, from.serial, t.store.local.Load(), t.tail.size() > t.c.c.TailBound/4)
	if serial <= from.serial {
		return nil
	}
	to := t.tail.cut(serial)
	k := t.c.keys
	value := string(to.encode()) // values are in the order of serials
	compare := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(k.leader()), "=", t.epoch), clientv3.Compare(clientv3.Value(k.trimmed()), "<", value)}
	if t.c.c.Unfenced {
		compare = nil
	}
	resp, err := ask(t.ctx, t.c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).If(compare...).
			Then(clientv3.OpDelete(k.tail(), clientv3.WithRange(k.group(serial+1))), clientv3.OpPut(k.trimmed(), value)).
			Else(clientv3.OpGet(k.trimmed())).Commit()
	})
	if err != nil {
		return err
	}
	if !resp.Succeeded && string(valuesOf(resp)[k.trimmed()]) != value { // otherwise an earlier attempt has taken effect
		return t.end(fmt.Errorf("%w: another was elected", ErrLost))
	}
	t.tail.begin(to)
	_, err = ask(t.ctx, t.c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.CompactResponse, error) {
		return client.Compact(ctx, resp.Header.Revision)
	})
	return err
}

// trimTo gives the last transaction that the tail need not have, which may be before from, where
// the tail begins. All registered nodes have it that the tail can still serve, and this one, and at
// least one other. When the tail is long, it is enough that the other node that is there and has
// the most has it: nodes that do not keep up need a backup then.
func trimTo(nodes []Node, own string, from, stored uint64, long bool) uint64 {
	least, kept, current := stored, uint64(0), uint64(0)
	for _, n := range nodes {
		// A node that has gone with less needs a backup. One that is there has more: what it
		// told last came late, or comes again.
		if n.Name == own || n.Serial < from && n.Role == RoleGone {
			continue
		}
		least = min(least, n.Serial)
		if n.Joining {
			continue
		}
		kept = max(kept, n.Serial)
		if n.Role != RoleGone {
			current = max(current, n.Serial)
		}
	}
	to := min(least, kept)
	if long {
		to = max(to, min(stored, current))
	}
	return to
}
