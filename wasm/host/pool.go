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
	// ErrClosed is the error of a call that changes a closed pool.
	ErrClosed = errors.New("host: the pool is closed")
)

// PoolConfig says what a [Pool] runs.
type PoolConfig struct {
	// Module is the core as WebAssembly; see [webring/wasm].
	Module []byte
	// CacheDir keeps compiled code from start to start, when it is not empty. Nothing
	// else may write there: what lies in it is run. The pool does without a folder that
	// does not work.
	CacheDir string
	// Instances is how many requests are answered at a time; 0 means as many as Go
	// uses processors, but at least two: one can move on while another answers.
	Instances int
	// MemoryPages bounds the memory of each instance, in pages of 64 KiB; 0 means
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
// A request locks an instance at the head and asks it. What moves the head locks one
// instance too and takes it further, while the others answer; then it publishes the new
// head and has the others follow, one by one.
//
// An instance that traps is replaced by a new one, which begins from the image of the
// ring. If no instance is left, the native core answers until the process ends. So the
// module must be the core that is compiled into the process.
type Pool struct {
	ctx    context.Context
	stop   context.CancelFunc
	config PoolConfig
	log    *slog.Logger

	runtime     wazero.Runtime
	compilation wazero.CompilationCache
	compiled    wazero.CompiledModule

	slots []slot
	hints sync.Pool // of *int: the slot to look at first
	head  atomic.Pointer[head]
	base  base
	traps atomic.Uint64

	writing sync.Mutex // held while the head moves, and while the native core takes over
	clock   clock
	native  atomic.Pointer[Native] // answers in place of the instances, once it is set
	closed  bool

	filling  sync.Mutex    // held while an instance is built and put into its slot
	missing  chan struct{} // tells keep to look for instances to build
	kept     chan struct{} // closed when keep has returned
	unshared sync.Once     // logs that instances do not share memory
}

// slot is the place of one instance. It has cache lines of its own.
type slot struct {
	mu sync.Mutex
	in *instance            // nil until there is one and after a trap
	at atomic.Pointer[head] // where the instance is; nil while it moves on or is missing
	_  [104]byte
}

// head is a position and second that is published. It is replaced, never changed.
type head struct {
	seq     uint64
	second  int64
	last    int64  // second of the last event
	rewinds uint64 // how often the second was set back
	baseURL string
}

// NewPool compiles the module and builds the first instance. The others follow in the
// background. ctx ends the compiling.
func NewPool(ctx context.Context, c PoolConfig) (*Pool, error) {
	if c.Instances <= 0 {
		c.Instances = max(runtime.GOMAXPROCS(0), 2)
	}
	p := &Pool{config: c, log: c.Log, slots: make([]slot, c.Instances), missing: make(chan struct{}, 1), kept: make(chan struct{})}
	if p.log == nil {
		p.log = slog.Default()
	}
	var next atomic.Int32
	p.hints.New = func() any { n := int(next.Add(1)-1) % c.Instances; return &n }
	// Instances outlive the call.
	p.ctx, p.stop = context.WithCancel(context.Background())
	if err := p.compile(ctx); err != nil {
		p.stop()
		return nil, err
	}
	if err := p.begin(); err != nil {
		p.stop()
		p.closeRuntime()
		return nil, err
	}
	go p.keep()
	return p, nil
}

// begin makes the first image and the first instance, and publishes its head.
func (p *Pool) begin() error {
	if !p.config.Now.IsZero() {
		p.clock.tick(p.config.Now)
	}
	from, err := p.firstImage()
	if err != nil {
		return err
	}
	p.base.image = from
	first, err := p.build()
	if err != nil {
		return err
	}
	if first.at, err = first.head(0); err != nil {
		first.close()
		return err
	}
	p.slots[0].in = first
	p.slots[0].at.Store(first.at)
	p.head.Store(first.at)
	return nil
}

// Serve answers a GET for target at the head; see [abi.Core.Serve]. The answer is the
// problem internal if the instance traps. No call may begin after Close.
func (p *Pool) Serve(target []byte, r *Response) {
	s, n := p.acquire()
	if n != nil {
		n.Serve(target, r)
	} else if s == nil || !p.serve(s, target, r) {
		h := p.head.Load()
		abi.Fail(h.seq, h.baseURL, r)
	}
}

// serve has the instance of a locked slot answer, and unlocks the slot. The instance is
// replaced when it fails or panics.
func (p *Pool) serve(s *slot, target []byte, r *Response) bool {
	err := errTrap
	defer func() { p.release(s, err) }()
	err = s.in.serve(target, rand.Uint64(), r)
	return err == nil
}

// acquire locks a slot with its instance at the head, for a caller that must release it. When no
// instance is left, it returns the native core. Both are nil when there is neither.
//
// A head that a request has seen is not too old for its answer, however far the others
// have gone meanwhile. But a request must not see an older head than an earlier one did.
func (p *Pool) acquire() (*slot, *Native) {
	hint := p.hints.Get().(*int)
	defer p.hints.Put(hint)
	for h := (*head)(nil); h != p.head.Load(); { // until the head rests
		h = p.head.Load()
		if n := p.native.Load(); n != nil {
			return nil, n
		}
		for i := range p.slots { // one that is free
			at := (*hint + i) % len(p.slots)
			if s := &p.slots[at]; s.at.Load() == h && s.mu.TryLock() {
				if s.at.Load() != nil {
					*hint = at
					return s, nil
				}
				s.mu.Unlock()
			}
		}
		for i := range p.slots { // one that another request uses
			if s := &p.slots[(*hint+i)%len(p.slots)]; s.at.Load() == h {
				s.mu.Lock()
				if s.at.Load() != nil {
					return s, nil
				}
				s.mu.Unlock()
			}
		}
	}
	// The only one may be moving on, and the others missing or behind.
	p.writing.Lock()
	defer p.writing.Unlock()
	for i := range p.slots {
		s := &p.slots[i]
		if s.mu.Lock(); p.ready(s) {
			return s, nil
		}
	}
	return nil, p.takeOver()
}

// release unlocks a slot after a call to its instance, and gives the instance up if the
// call failed.
func (p *Pool) release(s *slot, err error) {
	if err == nil {
		s.mu.Unlock()
		return
	}
	p.log.Error("an instance of the core is rebuilt", "err", err, "traps", p.traps.Add(1))
	s.at.Store(nil)
	s.in.close()
	s.in = nil
	s.mu.Unlock()
	p.wake()
}

// Head gives what is served: the number of records applied, and the second since 1970,
// UTC.
func (p *Pool) Head() (seq uint64, second int64) {
	if n := p.native.Load(); n != nil {
		return n.Head()
	}
	h := p.head.Load()
	return h.seq, h.second
}

// BaseURL is what links begin with; see [abi.Core.BaseURL].
func (p *Pool) BaseURL() string {
	if n := p.native.Load(); n != nil {
		return n.BaseURL()
	}
	return p.head.Load().baseURL
}

// Traps is how many instances have trapped.
func (p *Pool) Traps() uint64 { return p.traps.Load() }

// Digest gives 128 bits over all that the records applied determine, and their number.
// An instance is asked, and another if it traps. Both are zero when there is none.
func (p *Pool) Digest() (seq uint64, digest [16]byte) {
	for {
		s, n := p.acquire()
		switch {
		case n != nil:
			return n.Digest()
		case s == nil:
			return 0, digest
		}
		seq, digest, err := s.in.digest()
		if p.release(s, err); err == nil {
			return seq, digest
		}
	}
}

// Snapshot gives a snapshot at the present position, which the caller owns, or nil when
// none can be made. The native core makes it: the memory of an instance never shrinks.
// Apply and Tick wait meanwhile.
func (p *Pool) Snapshot() (snapshot []byte) {
	p.writing.Lock()
	defer p.writing.Unlock()
	if n := p.native.Load(); n != nil {
		return n.Snapshot()
	}
	err := p.natively(func(c *abi.Core) error {
		snapshot = c.AppendSnapshot(nil)
		return nil
	})
	if err != nil {
		p.log.Error("no snapshot can be made", "err", err)
	}
	return snapshot
}

// Close waits until no call is under way, and frees all memory and code.
func (p *Pool) Close() error {
	p.stop()
	<-p.kept
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	p.closeInstances()
	return p.closeRuntime()
}

// closeInstances closes all instances. Their memory must not be unmapped under a call.
func (p *Pool) closeInstances() {
	for i := range p.slots {
		s := &p.slots[i]
		s.mu.Lock()
		s.at.Store(nil)
		s.in.close()
		s.in = nil
		s.mu.Unlock()
	}
}
