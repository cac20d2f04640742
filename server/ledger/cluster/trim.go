package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// trimTime is the time between checks what can be trimmed.
const trimTime = 2 * time.Second

// tailBounds tracks the size of the tail in etcd.
type tailBounds struct {
	mu       sync.Mutex
	from, to trimmed
	alarm    error // why etcd takes no writes
}

// wrote adds a transaction.
func (b *tailBounds) wrote(serial, written uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to = trimmed{serial, written}
}

// cut gives the beginning of the tail once everything up to serial is trimmed. Its size is that of
// an average transaction of the tail for each, which is exact when nothing is left.
func (b *tailBounds) cut(serial uint64) trimmed {
	b.mu.Lock()
	defer b.mu.Unlock()
	part := float64(serial-b.from.serial) / float64(b.to.serial-b.from.serial)
	return trimmed{serial, b.from.written + uint64(part*float64(b.to.written-b.from.written))}
}

// begin moves the beginning.
func (b *tailBounds) begin(from trimmed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.from = from
}

func (b *tailBounds) size() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(b.to.written - b.from.written)
}

// Room says why nothing may be written now. It is quick.
func (t *Term) Room() error {
	if size, bound := t.tail.size(), t.c.c.tailBound; size > bound {
		return fmt.Errorf("cluster: etcd holds %d bytes that no other node has, more than %d: no standby keeps up", size, bound)
	}
	t.tail.mu.Lock()
	defer t.tail.mu.Unlock()
	return t.tail.alarm
}

// keepTail trims the tail and checks whether etcd takes writes, until the term is over.
func (t *Term) keepTail() {
	for wait(t.ctx, trimTime) == nil {
		ring, err := t.c.Status(t.ctx)
		if err == nil {
			err = errors.Join(t.trim(ring.Nodes), t.rotate(ring.Nodes))
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

// lookForAlarms checks whether a member of etcd is out of space or corrupt.
func (t *Term) lookForAlarms() {
	ctx, cancel := context.WithTimeout(t.ctx, firstAttempt)
	defer cancel()
	client, _ := t.c.members.pick()
	resp, err := client.AlarmList(ctx)
	if err != nil {
		return // renewing the lease shows what that means
	}
	var alarm error
	for _, a := range resp.Alarms {
		alarm = errors.Join(alarm, fmt.Errorf("cluster: the member %x of etcd has raised the alarm %s", a.MemberID, a.Alarm))
		if a.Alarm == pb.AlarmType_NOSPACE {
			alarm = fmt.Errorf("%w: %s", alarm, makeSpace)
		}
	}
	t.tail.mu.Lock()
	t.tail.alarm = alarm
	t.tail.mu.Unlock()
}

// trim deletes from the tail what the nodes have, and compacts it away.
func (t *Term) trim(nodes []Node) error {
	t.tail.mu.Lock()
	from := t.tail.from
	t.tail.mu.Unlock()
	serial := trimTo(nodes, t.c.c.Node, from.serial, t.store.local.Load(), t.tail.size() > t.c.c.tailBound/4)
	if serial <= from.serial {
		return nil
	}
	to := t.tail.cut(serial)
	k, value := t.c.keys, string(to.encode()) // values sort by their serials
	compare := []clientv3.Cmp{t.leads(), clientv3.Compare(clientv3.Value(k.trimmed()), "<", value)}
	if t.c.c.Unfenced {
		compare = nil
	}
	resp, found, err := t.c.members.txn(t.ctx, compare,
		[]clientv3.Op{clientv3.OpDelete(k.tail(), clientv3.WithRange(k.group(serial+1))), clientv3.OpPut(k.trimmed(), value)}, clientv3.OpGet(k.trimmed()))
	if err != nil {
		return err
	}
	if !resp.Succeeded && string(found.of(k.trimmed())) != value { // otherwise an earlier attempt took effect
		return t.end(errDeposed)
	}
	t.tail.begin(to)
	_, err = ask(t.ctx, t.c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.CompactResponse, error) {
		return client.Compact(ctx, resp.Header.Revision)
	})
	return err
}

// trimTo gives the last transaction that the tail does not need, which may be before from, where the
// tail begins. This node has it, at least one other has it, and so do all registered nodes that the
// tail can still serve. If the tail is long, it is enough that one other node that is there has it;
// nodes that do not keep up then need a backup.
func trimTo(nodes []Node, own string, from, stored uint64, long bool) uint64 {
	least, kept, current := stored, uint64(0), uint64(0)
	for _, n := range nodes {
		// A node that is gone and has less needs a backup. One that is there has more: its last report
		// was late.
		gone := n.Role == RoleGone || n.Role == RoleRefused
		if n.Name == own || n.Serial < from && gone {
			continue
		}
		least = min(least, n.Serial)
		if n.Joining {
			continue
		}
		kept = max(kept, n.Serial)
		if !gone {
			current = max(current, n.Serial)
		}
	}
	to := min(least, kept)
	if long {
		to = max(to, min(stored, current))
	}
	return to
}
