package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"webring/server/ledger"
)

// Bounds of a request to etcd.
const (
	firstAttempt = time.Second // grows with each attempt, up to longAttempt
	longAttempt  = 5 * time.Second
	firstPause   = 10 * time.Millisecond // doubles with each attempt, up to longPause
	longPause    = 200 * time.Millisecond
	// maxRequest is what etcd must take: a group that does not compress, and room.
	maxRequest = ledger.MaxBatch + 1<<20
)

// members are connections to the members of etcd, one to each. They use one member until it
// fails. A client with several endpoints would keep sending every third request to a paused
// member, until enough of those had timed out.
type members struct {
	clients []*clientv3.Client
	current atomic.Int32
}

func dial(c Config) (*members, error) {
	m := &members{}
	for _, endpoint := range c.Endpoints {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{endpoint}, TLS: c.TLS, Username: c.Username, Password: c.Password,
			DialTimeout: longAttempt, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
			MaxCallSendMsgSize: maxRequest, MaxUnaryRetries: 2, Logger: zap.NewNop(),
			DialOptions: append([]grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
				MinConnectTimeout: firstAttempt,
			})}, c.dial...),
		})
		if err != nil {
			return nil, errors.Join(err, m.close())
		}
		m.clients = append(m.clients, client)
	}
	return m, nil
}

func (m *members) close() error {
	var err error
	for _, client := range m.clients {
		if e := client.Close(); e != nil && !errors.Is(e, context.Canceled) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// pick gives the member to ask, and its number.
func (m *members) pick() (*clientv3.Client, int32) {
	i := m.current.Load()
	return m.clients[i], i
}

// failed goes on to the next member after member i, if that is still the one to ask.
func (m *members) failed(i int32) {
	m.current.CompareAndSwap(i, (i+1)%int32(len(m.clients)))
}

// seekLeader switches to the member that leads etcd, if it answers soon. That saves each request a hop.
func (m *members) seekLeader(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstAttempt)
	defer cancel()
	var mu sync.Mutex
	var term uint64
	leads := int32(-1)
	var asked sync.WaitGroup
	for i, client := range m.clients {
		asked.Go(func() {
			s, err := pb.NewMaintenanceClient(client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
			if err != nil || s.Leader != s.Header.MemberId {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if s.RaftTerm > term {
				term, leads = s.RaftTerm, int32(i)
				cancel()
			}
		})
	}
	asked.Wait()
	if leads >= 0 {
		m.current.Store(leads)
	}
}

// ask sends the same request until it is answered, to one member after the other. It fails if
// etcd refuses the request, or if ctx ends; then the outcome is unknown.
func ask[R any](ctx context.Context, m *members, send func(context.Context, *clientv3.Client) (R, error)) (R, error) {
	attempt, pause := firstAttempt, firstPause
	for {
		client, i := m.pick()
		c, cancel := context.WithTimeout(ctx, attempt)
		r, err := send(c, client)
		cancel()
		if err == nil || refusal(err) {
			return r, err
		}
		m.failed(i)
		if wait(ctx, pause) != nil {
			return r, errors.Join(ctx.Err(), err)
		}
		attempt, pause = min(2*attempt, longAttempt), min(2*pause, longPause)
	}
}

// txn sends a transaction until etcd answers, as ask does, and gives what it has read.
func (m *members) txn(ctx context.Context, compare []clientv3.Cmp, then []clientv3.Op, otherwise ...clientv3.Op) (*clientv3.TxnResponse, values, error) {
	resp, err := ask(ctx, m, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).If(compare...).Then(then...).Else(otherwise...).Commit()
	})
	if err != nil {
		return nil, nil, err
	}
	found := values{}
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().GetKvs() {
			found[string(kv.Key)] = kv
		}
	}
	return resp, found, nil
}

// get reads a key, or with options several, as ask does. No decision may rest on it: the answer can
// be from the past.
func (m *members) get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return ask(ctx, m, func(ctx context.Context, client *clientv3.Client) (*clientv3.GetResponse, error) {
		return client.Get(ctx, key, options...)
	})
}

// gets are the operations that read keys.
func gets(keys ...string) (ops []clientv3.Op) {
	for _, key := range keys {
		ops = append(ops, clientv3.OpGet(key))
	}
	return ops
}

// values are the keys that a transaction has read and that exist.
type values map[string]*mvccpb.KeyValue

func (v values) has(key string) bool { return v[key] != nil }

// of gives the value of a key, nil if it does not exist.
func (v values) of(key string) []byte { return v[key].GetValue() }

// text reads the JSON value of a key, if it exists.
func (v values) text(key string, to any) error {
	if !v.has(key) {
		return nil
	}
	return decodeText(v.of(key), to)
}

// refusal reports whether etcd has refused a request, so that a retry cannot succeed.
func refusal(err error) bool {
	code := codes.Unknown
	if e := (rpctypes.EtcdError{}); errors.As(err, &e) {
		code = e.Code()
	} else if s, ok := status.FromError(err); ok {
		code = s.Code()
	}
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.OutOfRange, codes.PermissionDenied:
		return true
	case codes.ResourceExhausted:
		return !errors.Is(err, rpctypes.ErrTooManyRequests)
	}
	return false
}

// wait pauses, but not longer than ctx lasts.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
