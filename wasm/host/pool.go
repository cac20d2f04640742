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

// How long a request, the clock and the writer wait for an instance. The writer
// must not give up before a rebuilt one can be there; the clock may, because
// there is another second soon.
const (
	waitServe = 2 * time.Second
	waitLead  = 500 * time.Millisecond
	waitWrite = time.Minute
	// closePause is how long Close waits for one instance before it looks for
	// those that were given up instead.
	closePause = 10 * time.Millisecond
)

// PoolConfig says what a [Pool] runs.
type PoolConfig struct {
	// Module is the core as WebAssembly; see [webring/wasm].
	Module []byte
	// CacheDir keeps compiled code from start to start, when it is not empty.
	// Nobody else may write there: what lies in it is run. A folder that does
	// not work is done without.
	CacheDir string
	// Instances is how many requests are answered at a time; 0 stands for as
	// many as Go uses processors, but at least two: when time leaps, one can
	// catch up while another answers.
	Instances int
	// MemoryPages bounds the memory of each instance, in pages of 64 KiB; 0
	// stands for 4 GiB.
	MemoryPages uint32
	// Capacity is how many members can ever join.
	Capacity int
	// Snapshot is where the ledger begins, nil for an empty one. It must not be
	// changed before the pool is there.
	Snapshot []byte
	// Now is the time of day, as a first [Pool.Tick] would tell it, or zero: the
	// ring is ranked for it once, and not by each instance that begins.
	Now time.Time
	// Native says that the module is the core that is compiled into this process,
	// too. Then it stands in when no instance works.
	Native bool
	// Patience bounds each call of the module, for one of which it is not known
	// that its calls return; 0 stands for no bound. To be interrupted, code takes
	// about four times as long.
	Patience time.Duration
	// Interpreter runs the module without compiling it, and Copies gives every
	// instance all of its memory for itself, for tests.
	Interpreter bool
	Copies      bool
	// Log receives what operators should see, [slog.Default] when nil.
	Log *slog.Logger
}

// Pool is a number of instances of the guest, each with the whole ring, and one
// head for all. All its functions may be called concurrently.
//
// The ring is loaded and verified once, and instances begin from an image of it in
// memory: on Linux they share that until they write to it.
//
// Whatever moves the head, records or a second, does so in one instance before any
// request sees that it did, and it is noted how long that took. An instance that a
// request takes is first brought to the head; one for which that would take more
// than half a millisecond, by those notes, catches up outside the pool. Before one
// instance goes ahead, another is seen to be near the head: so there is always one
// that answers and need not catch up, if the pool has two. One that traps is built
// anew, from the last image and the records since, which the pool keeps. When none
// is left, or none takes a record, the native core answers until all are there
// again, if the pool may have it.
type Pool struct {
	ctx    context.Context
	stop   context.CancelFunc
	config PoolConfig
	log    *slog.Logger

	runtime  wazero.Runtime
	cache    wazero.CompilationCache
	compiled wazero.CompiledModule

	rack    *rack        // instances to be brought to the head and used
	whole   atomic.Int64 // instances that are not being built
	retired atomic.Int64 // instances that were not built in the end
	timers  sync.Pool
	traps   atomic.Uint64
	closed  atomic.Bool

	native atomic.Pointer[Native] // nil unless it stands in; at the head

	head atomic.Pointer[head]
	kept kept

	catching chan struct{} // room for those that may catch up at a time
	renewing sync.Mutex    // held by what has instances that are not of the pool
	unshared sync.Once     // said that instances do not share memory

	writing sync.Mutex // held by what moves the head
	clock   clock
	ticks   int
}

// head is what is served. It is replaced, never changed.
type head struct {
	seq     uint64
	second  int64
	last    int64  // second of the last event
	rewinds uint64 // how often the second was set back
	baseURL string
	// way is how long it took the instances that went ahead to come here from the
	// first head: what lies between two heads costs any other instance about the
	// difference.
	way time.Duration
}

// NewPool compiles the module and builds the first instance. ctx ends the compiling.
// Others follow in the background, all at once.
func NewPool(ctx context.Context, c PoolConfig) (*Pool, error) {
	if c.Instances <= 0 {
		c.Instances = max(runtime.GOMAXPROCS(0), 2)
	}
	p := &Pool{
		config: c, log: c.Log,
		rack: newRack(c.Instances),
		// The module's code cannot be interrupted for a request: so processors are
		// left for those.
		catching: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1)),
		timers:   sync.Pool{New: func() any { return time.NewTimer(time.Hour) }},
	}
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
		p.release()
		return nil, err
	}
	p.whole.Store(1)
	p.rack.put(first)
	for place := 1; place < c.Instances; place++ {
		p.heal(&instance{place: place})
	}
	return p, nil
}

// begin makes the first image and the first instance, at the head from then on.
func (p *Pool) begin() (first *instance, err error) {
	p.kept.least = keptBytes
	if !p.config.Now.IsZero() {
		p.clock.tick(p.config.Now)
	}
	if p.kept.image, err = p.prime(); err != nil {
		return nil, err
	}
	p.kept.from = p.kept.image.at
	if first, err = p.build(0); err != nil {
		return nil, err
	}
	h, err := first.head(0)
	if err != nil {
		first.close()
		return nil, err
	}
	first.at = h
	p.head.Store(h)
	return first, nil
}

// Apply folds records, which follow the ones applied before, and then shows
// them, all at once. Errors are those of [Native.Apply], in words alone, and
// where the native core may not stand in [ErrNoInstance] or a trap; after these
// two nothing has been applied.
func (p *Pool) Apply(records []Record) error {
	encoded := make([][]byte, len(records))
	for i, r := range records {
		encoded[i] = abi.AppendRecord(nil, r)
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	if n := p.native.Load(); n != nil {
		return p.writeNative(n, records, encoded)
	}
	wait := waitWrite
	if p.config.Native {
		wait = waitServe
	}
	p.leaveOne()
	var err error
	// An instance that traps may have been ill; if the next one does, the
	// records are what it cannot take.
	for range 2 {
		in := p.take(&p.rack.movers, wait)
		if in == nil {
			err = ErrNoInstance
			break
		}
		var refusal error
		if refusal, err = p.write(in, encoded); err == nil && (refusal == nil || !p.config.Native) {
			p.rack.put(in)
			return refusal
		}
		p.discard(in, errors.Join(err, refusal))
		if errors.Is(err, errLate) {
			break // once is long enough
		}
	}
	if !p.config.Native || p.closed.Load() {
		return err
	}
	n, err := p.standIn()
	if err != nil {
		return err
	}
	return p.writeNative(n, records, encoded)
}

// Serve answers a GET for target at the head; see [abi.Core.Serve]. If the
// instance traps, or none becomes free within 2 seconds, and the native core
// does not stand in, the answer is the problem internal. No call may begin after
// Close.
func (p *Pool) Serve(target []byte, r *Response) {
	if n := p.native.Load(); n != nil {
		n.Serve(target, r)
		return
	}
	if in := p.take(&p.rack.others, waitServe); in != nil && p.serve(in, target, r) {
		return
	}
	if n := p.native.Load(); n != nil {
		n.Serve(target, r)
		return
	}
	p.fail(r)
}

// serve has an instance answer. One that fails is given up, whatever happened.
func (p *Pool) serve(in *instance, target []byte, r *Response) bool {
	err := errTrap
	defer func() { p.done(in, err) }()
	err = in.serve(target, rand.Uint64(), r)
	return err == nil
}

// done gives an instance back, or gives it up when a call to it failed.
func (p *Pool) done(in *instance, err error) {
	if err != nil {
		p.discard(in, err)
	} else {
		p.rack.put(in)
	}
}

func (p *Pool) fail(r *Response) {
	h := p.head.Load()
	abi.Fail(h.seq, h.baseURL, r)
}

// Head gives what is served: the number of records applied, and the second
// since 1970, UTC.
func (p *Pool) Head() (seq uint64, second int64) {
	h := p.head.Load()
	return h.seq, h.second
}

// BaseURL is what links begin with; see [abi.Core.BaseURL].
func (p *Pool) BaseURL() string { return p.head.Load().baseURL }

// Traps is how many instances have trapped and been given up.
func (p *Pool) Traps() uint64 { return p.traps.Load() }

// Digest gives 128 bits over all that the records applied determine, and their
// number. Both are zero when there is no core to ask.
func (p *Pool) Digest() (seq uint64, digest [16]byte) {
	n := p.ask(func(in *instance) (err error) { seq, digest, err = in.digest(); return err })
	if n != nil {
		return n.Digest()
	}
	return seq, digest
}

// Snapshot gives a snapshot at the present position, which the caller owns, or
// nil when there is no core to ask.
func (p *Pool) Snapshot() (snapshot []byte) {
	if p.config.Native && p.native.Load() == nil {
		// An instance never gives back the memory that a snapshot takes, and may not
		// have as much: it is two thirds of what the ring takes.
		snapshot, err := p.kept.snapshot(p.config.Capacity, p.head.Load())
		if err == nil {
			return snapshot
		}
		p.log.Warn("an instance of the core is asked for a snapshot", "err", err)
	}
	n := p.ask(func(in *instance) (err error) { snapshot, err = in.snapshot(); return err })
	if n != nil {
		return n.Snapshot()
	}
	return snapshot
}

// ask puts a question to one instance, and to others if it traps. It gives the
// native core when that is to be asked.
func (p *Pool) ask(question func(*instance) error) *Native {
	for range p.config.Instances + 1 {
		if n := p.native.Load(); n != nil {
			return n
		}
		in := p.take(&p.rack.others, waitWrite)
		if in == nil {
			break
		}
		err := question(in)
		if err == nil {
			p.rack.put(in)
			return nil
		}
		p.discard(in, err)
	}
	return p.native.Load()
}

// Close waits until no call is under way, and gives all memory and code back.
func (p *Pool) Close() error {
	if p.closed.Swap(true) {
		return nil
	}
	p.stop()
	p.renewing.Lock() // for good
	// Code and memory must not be unmapped under a call, so every instance comes
	// home.
	for home := int64(0); home+p.retired.Load() < int64(p.config.Instances); {
		if in := p.rack.await(&p.rack.others, time.After(closePause), nil, func() bool { return false }); in != nil {
			in.close()
			home++
		}
	}
	return p.release()
}

func (p *Pool) release() error {
	ctx := context.Background()
	var err error
	if p.runtime != nil { // there is none where wazero cannot compile
		err = p.runtime.Close(ctx)
	}
	if p.cache != nil {
		err = errors.Join(err, p.cache.Close(ctx))
	}
	return err
}
