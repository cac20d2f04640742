package host

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"

	"webring/core/abi"
)

var (
	// ErrMemory is wrapped by the errors of [NewPool], and by what the pool logs,
	// about a ring that is too large for [PoolConfig.MemoryPages]. The native core
	// has no such bound.
	ErrMemory = errors.New("host: the ring does not fit into the memory of an instance")
	// ErrNoInstance says that no instance became free in time: all have
	// trapped, and building them anew fails.
	ErrNoInstance = errors.New("host: no instance of the module is free")
)

const (
	// waitServe is how long a request waits for an instance.
	waitServe = 2 * time.Second
	// waitDigest is how long Digest waits for an instance, and waitRenew how long renew
	// waits until one is free.
	waitDigest = time.Minute
	waitRenew  = time.Minute
	// closePause is how long Close waits for one instance before it looks for slots
	// that have been given up instead.
	closePause = 10 * time.Millisecond
)

// PoolConfig says what a [Pool] runs.
type PoolConfig struct {
	// Module is the core as WebAssembly; see [webring/wasm].
	Module []byte
	// CacheDir keeps compiled code from start to start, when it is not empty. Nothing
	// else may write there: what lies in it is run. The pool does without a folder that
	// does not work.
	CacheDir string
	// Instances is how many requests are answered at a time; 0 stands for as many as Go
	// uses processors, but at least two: one can catch up while another answers.
	Instances int
	// MemoryPages bounds the memory of each instance, in pages of 64 KiB; 0 stands for
	// 4 GiB.
	MemoryPages uint32
	// Copies gives each instance all of the ring for itself. Otherwise instances share
	// the memory that they have not written to, on Linux.
	Copies bool
	// Capacity is how many members can ever join.
	Capacity int
	// Snapshot is where the ledger begins, nil for an empty one. The caller must not
	// change it before NewPool returns.
	Snapshot []byte
	// Now is the time of day, as a first [Pool.Tick] would tell it, or zero. The ring is
	// ranked for it once, and not again by each instance.
	Now time.Time
	// Interpreter runs the module without compiling it, for tests.
	Interpreter bool
	// Log receives what operators should see, [slog.Default] when nil.
	Log *slog.Logger
}

// Pool answers requests with a number of instances of the guest, each with the whole
// ring, and one head for all. All its functions may be called concurrently.
//
// The native core loads and verifies the ring once, and instances begin from an image of
// it in memory. When no instance is left, or none folds a record, the native core answers
// until all instances are there again. So the module must be the core that is compiled
// into the process.
//
// Records and seconds are first applied in one instance. Then the new head is published,
// with what it has cost so far. A request brings the instance that it gets to the head.
// If, by the costs, that takes more than half a millisecond, the instance catches up in
// the background, and the request gets another one: before an instance goes ahead, a
// second one is near the head, if the pool has two. An instance that traps is replaced by
// one that is built from the last image and the records since.
type Pool struct {
	ctx    context.Context
	stop   context.CancelFunc
	config PoolConfig
	log    *slog.Logger

	runtime     wazero.Runtime
	compilation wazero.CompilationCache
	compiled    wazero.CompiledModule

	free    *freeList
	working atomic.Int64 // instances that are not being built
	ended   atomic.Int64 // slots whose instance will never be built, as the pool is closed
	timers  sync.Pool
	traps   atomic.Uint64
	closed  atomic.Bool

	fallback atomic.Pointer[Native] // at the head; nil while instances answer
	fellBack atomic.Value           // a chan struct{} that is closed when fallback is set

	head  atomic.Pointer[head]
	cache cache

	turns    chan struct{} // a semaphore: instances that catch up in the background
	imaging  sync.Mutex    // held while an image is made
	renewing sync.Mutex    // held while renew builds instances beside those of the pool
	renewed  *image        // from which renew last had all instances begin; under renewing
	unshared sync.Once     // logs that instances do not share memory

	writing sync.Mutex // held while the head moves
	clock   clock
	ticks   int
}

// head is a position and second that is published. It is replaced, never changed.
type head struct {
	seq     uint64
	second  int64
	last    int64  // second of the last event
	rewinds uint64 // how often the second was set back
	baseURL string
	// cost is how long the instances that went ahead took from the first head to this
	// one. To go from one head to another takes any instance about the difference.
	cost time.Duration
}

// NewPool compiles the module and builds the first instance. The others follow in the
// background. ctx ends the compiling.
func NewPool(ctx context.Context, c PoolConfig) (*Pool, error) {
	if c.Instances <= 0 {
		c.Instances = max(runtime.GOMAXPROCS(0), 2)
	}
	p := &Pool{
		config: c, log: c.Log,
		free:   newFreeList(c.Instances),
		turns:  make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1)),
		timers: sync.Pool{New: func() any { return time.NewTimer(time.Hour) }},
	}
	p.fellBack.Store(make(chan struct{}))
	if p.log == nil {
		p.log = slog.Default()
	}
	// Instances outlive the call.
	p.ctx, p.stop = context.WithCancel(context.Background())
	if err := p.compile(ctx); err != nil {
		p.stop()
		return nil, err
	}
	first, err := p.begin()
	if err != nil {
		p.stop()
		p.closeRuntime()
		return nil, err
	}
	p.working.Store(1)
	p.free.put(first)
	for slot := 1; slot < c.Instances; slot++ {
		go p.restore(&instance{slot: slot})
	}
	return p, nil
}

// begin makes the first image and the first instance, and publishes its head.
func (p *Pool) begin() (*instance, error) {
	if !p.config.Now.IsZero() {
		p.clock.tick(p.config.Now)
	}
	from, err := p.firstImage()
	if err != nil {
		return nil, err
	}
	p.cache.capacity, p.cache.most = p.config.Capacity, mostRecords
	p.cache.image, p.cache.from, p.renewed = from, from.at, from
	first, err := p.build(0)
	if err != nil {
		return nil, err
	}
	if first.at, err = first.head(0); err != nil {
		first.close()
		return nil, err
	}
	p.head.Store(first.at)
	return first, nil
}

// Serve answers a GET for target at the head; see [abi.Core.Serve]. The answer is the
// problem internal if the instance traps, or none is free within 2 seconds, and the native
// core does not answer instead. No call may begin after Close.
func (p *Pool) Serve(target []byte, r *Response) {
	if n := p.fallback.Load(); n != nil {
		n.Serve(target, r)
		return
	}
	if in := p.acquire(&p.free.readers, waitServe); in != nil && p.serve(in, target, r) {
		return
	}
	if n := p.fallback.Load(); n != nil {
		n.Serve(target, r)
		return
	}
	h := p.head.Load()
	abi.Fail(h.seq, h.baseURL, r)
}

// serve has an instance answer, and puts it back. One that fails, or panics, is
// replaced.
func (p *Pool) serve(in *instance, target []byte, r *Response) bool {
	err := errTrap
	defer func() { p.done(in, err) }()
	err = in.serve(target, rand.Uint64(), r)
	return err == nil
}

// done puts an instance back, or has it replaced when a call to it failed.
func (p *Pool) done(in *instance, err error) {
	if err != nil {
		p.replace(in, err)
	} else {
		p.free.put(in)
	}
}

// Head gives what is served: the number of records applied, and the second since 1970,
// UTC.
func (p *Pool) Head() (seq uint64, second int64) {
	h := p.head.Load()
	return h.seq, h.second
}

// BaseURL is what links begin with; see [abi.Core.BaseURL].
func (p *Pool) BaseURL() string { return p.head.Load().baseURL }

// Traps is how many instances have trapped.
func (p *Pool) Traps() uint64 { return p.traps.Load() }

// Digest gives 128 bits over all that the records applied determine, and their number.
// An instance is asked, and another if it traps. Both are zero when there is none.
func (p *Pool) Digest() (seq uint64, digest [16]byte) {
	for range p.config.Instances + 1 {
		in := p.acquire(&p.free.readers, waitDigest)
		if in == nil {
			break
		}
		seq, digest, err := in.digest()
		if err == nil {
			p.free.put(in)
			return seq, digest
		}
		p.replace(in, err)
	}
	if n := p.fallback.Load(); n != nil {
		return n.Digest()
	}
	return 0, [16]byte{}
}

// Snapshot gives a snapshot at the present position, which the caller owns, or nil when
// none can be made. The native core makes it: the memory of an instance never shrinks.
func (p *Pool) Snapshot() (snapshot []byte) {
	p.imaging.Lock() // no newer image drops the records since this one
	defer p.imaging.Unlock()
	from, h := p.cache.newest(), p.head.Load()
	err := from.memory.View(func(b []byte) error {
		c, err := p.cache.core(from, b, h)
		if err == nil {
			snapshot = c.AppendSnapshot(nil)
		}
		return err
	})
	if err != nil {
		p.log.Error("no snapshot can be made", "err", err)
	}
	return snapshot
}

// Close waits until no call is under way, and frees all memory and code.
func (p *Pool) Close() error {
	if p.closed.Swap(true) {
		return nil
	}
	p.stop()
	p.renewing.Lock() // for good
	// Code and memory must not be unmapped under a call, so Close collects the instance
	// of every slot.
	for closed := int64(0); closed+p.ended.Load() < int64(p.config.Instances); {
		if in := p.free.wait(&p.free.readers, time.After(closePause), nil, nil); in != nil {
			in.close()
			closed++
		}
	}
	return p.closeRuntime()
}
